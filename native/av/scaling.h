#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/geometry.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/libav.h"
#include "media/pixel_format.h"

namespace spdl {

// The weights that libswscale uses along one axis.
struct ScalingWeights {
    int taps = 0;                       // Of every output, some of them 0.
    int used = 0;                       // The taps that the widest output has.
    std::vector<int> first;             // For each output the first input; they never go back.
    std::vector<std::int16_t> weights;  // For each output its taps.
};

enum class ScalingAxis { kHorizontal, kVertical };

// Reads the weights for that many outputs of that many inputs off pictures that libswscale scales. The number of taps
// will be a multiple of `multiple`. Nothing if they cannot be read, or if there are not as many inputs.
std::optional<ScalingWeights> read_scaling_weights(ScalingAxis axis, int inputs, int outputs,
                                                   Interpolation interpolation, int multiple);

// How libswscale makes RGB of YUV: chroma moves luma by a whole number of levels, and a straight line makes a colour of
// the sum. All in 16.16.
struct SwsYuvColors {
    std::int32_t slope = 0;  // Of the line, and where it begins.
    std::int32_t start = 0;
    std::int32_t red_of_v = 0;  // How far each level of chroma moves luma.
    std::int32_t green_of_u = 0;
    std::int32_t green_of_v = 0;
    std::int32_t blue_of_u = 0;
};

// Rows of samples and their weights, for one row of the result.
struct SwsRowsIn {
    const std::int16_t* const* luma;
    const std::int16_t* luma_weights;
    int luma_taps;  // An even number, as the one below.
    const std::int16_t* const* u;
    const std::int16_t* const* v;
    const std::int16_t* chroma_weights;
    int chroma_taps;
};

// Samples beyond the end of a row that may be read and written.
inline constexpr std::size_t kSwsRowSlack = 32;

// How rows are scaled along x: an output is the sum of `taps` bytes from `first` on, in 1/128 of a level. `taps` is a
// multiple of 8, up to kMostSwsTaps.
struct SwsRowWeights {
    ScalingWeights plain;
    int inputs = 0;
    AlignedBuffer packed;  // The same as the processor likes it; empty if it takes them as they are.
};
inline constexpr int kMostSwsTaps = 64;

using PackSwsWeights = void(SwsRowWeights& weights);

// Outputs come in groups of that many.
inline constexpr int kSwsGroup = 16;

// Scales rows of one plane, or of two that are alike. The first output is `begin`, a multiple of kSwsGroup.
using ScaleSwsRows = void(const SwsRowWeights& weights, const std::uint8_t* const* rows, std::int16_t* const* to,
                          int num_rows, int begin, int end);

// Makes a row of a plane of bytes: the sum of rows by their weights, an even number of them.
using MixSwsPlane = void(const std::int16_t* const* rows, const std::int16_t* weights, int taps, int start, int width,
                         std::uint8_t* to);

// Makes a row of packed RGB of `width` pixels, an even number. `scratch` has room for 3 * (width + kSwsRowSlack).
using MixSwsRows = void(const SwsRowsIn& in, const SwsYuvColors& colors, int width, std::int16_t* scratch,
                        std::uint8_t* to);

struct SwsKernels {
    PackSwsWeights* pack;
    ScaleSwsRows* scale;
    MixSwsRows* mix;
    // Only the upper 16 bits of each product count; `start` compensates for that.
    MixSwsPlane* mix_plane;
    // Rounds the sum; nothing else is added.
    MixSwsPlane* round_plane;
};

// Returns those for this processor; null if libswscale is as fast on it.
const SwsKernels* sws_kernels();

// Steps without a variant for AVX-512 use AVX2.
extern const SwsKernels kAvx2SwsKernels;
PackSwsWeights pack_sws_weights_avx512;
ScaleSwsRows scale_sws_rows_avx512;

// The rows that the first pass of a SwsScaler has made of a plane, or of two that are alike: as many as the second pass
// needs at once.
class SwsRing {
  public:
    // For the columns from `left` to `right` of the result. All but the frame's samples must live as long as the ring,
    // and `memory` has room for size().
    SwsRing(const AVFrame& frame, int first_plane, int num_planes, const SwsRowWeights& across,
            const ScalingWeights& down, int left, int right, std::int16_t* memory);

    static std::size_t size(int num_planes, const ScalingWeights& down, int left, int right);

    // Makes the rows that a row of the result needs, and puts the rows in the order of their weights into `rows`, the
    // second plane after the first. Rows of the result come from top to bottom.
    void prepare(int y, const std::int16_t** rows);

    // Returns the weights of a row of the result.
    [[nodiscard]] const std::int16_t* weights(int y) const {
        return down_.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.taps;
    }

  private:
    [[nodiscard]] std::int16_t* row(int plane, int index) const {
        return memory_ + static_cast<std::size_t>(plane * down_.taps + index % down_.taps) * length_;
    }

    const AVFrame& frame_;
    int first_plane_;
    int num_planes_;
    const SwsRowWeights& across_;
    const ScalingWeights& down_;
    int begin_;  // A multiple of kSwsGroup.
    int left_;
    int right_;
    std::size_t length_;
    std::int16_t* memory_;
    int next_ = 0;
};

// Returns what libswscale needs to scale pictures like this one and convert them in one step, as FFmpeg's filters scale
// and format do. Null if it does not convert between the formats.
SwsContextPtr make_scaling_context(const AVFrame& like, Size size, AVPixelFormat format, Interpolation interpolation);

// Scales pictures of YUV 4:2:0, and may make packed RGB of them, in one pass and with the bytes that libswscale gives,
// in a fraction of its time. The weights are read off libswscale itself, whatever its release, and a scaler is used
// only if it gives the same for a picture of noise. Immutable: any number of threads may use one.
class SwsScaler {
  public:
    // The conversion that a scaler is made for.
    struct Form {
        Size from;
        Size to;
        AVPixelFormat format;
        AVPixelFormat to_format;
        AVColorSpace matrix;
        AVColorRange range;
        Interpolation interpolation;

        bool operator==(const Form&) const = default;
    };

    // Room for the rows between the two passes. It belongs to one thread.
    using Scratch = std::vector<std::int16_t>;

    // Returns the form for pictures like this one; nothing if no scaler exists for it.
    static std::optional<Form> form_of(const AVFrame& like, Size to, AVPixelFormat to_format,
                                       Interpolation interpolation);

    // Returns the scaler, if it was made before. It is null if libswscale gives something else.
    static std::optional<std::shared_ptr<const SwsScaler>> known(const Form& form);

    // Returns the forms of all that were made and are remembered, and whether each works. For tests.
    static std::vector<std::pair<Form, bool>> all_known();

    // Makes the scaler, which takes about as long as scaling a few pictures, and remembers it. Null as above.
    static std::shared_ptr<const SwsScaler> make(const Form& form);

    [[nodiscard]] const Form& form() const { return form_; }

    // Writes a part of the scaled picture to another one, with its upper left corner at `x` and `y`. In YUV, two pixels
    // share their chroma, so all of that is even but for the last row and column.
    void scale(const AVFrame& frame, const Box& part, AVFrame& to, int x, int y, Scratch& scratch) const;

  private:
    struct Axis {
        SwsRowWeights luma;
        SwsRowWeights chroma;
    };
    struct Column {
        ScalingWeights luma;
        ScalingWeights chroma;
    };

    explicit SwsScaler(const Form& form) : form_(form) {}

    bool prepare();
    void make_rgb(const AVFrame& frame, const Box& part, std::uint8_t* to, std::ptrdiff_t stride,
                  Scratch& scratch) const;
    void make_plane(const AVFrame& frame, int plane, const Box& part, std::uint8_t* to, std::ptrdiff_t stride,
                    Scratch& scratch) const;

    Form form_;
    Axis across_;
    Column down_;
    SwsYuvColors colors_;
};

// Returns whether a scaler gives the bytes that libswscale gives for a picture of noise.
bool scales_as_libswscale(const SwsScaler& scaler);

// Says for each picture of a video whether a SwsScaler scales it. One is made only if some pictures of its form have
// come: for fewer it is not worth it. One thread at a time.
class FastScaling {
  public:
    // Returns null if libswscale should scale a picture of this form, or without a form.
    const SwsScaler* find(const std::optional<SwsScaler::Form>& form);

    // Returns what SwsScaler::scale needs.
    SwsScaler::Scratch& scratch() { return scratch_; }

  private:
    std::optional<SwsScaler::Form> form_;
    int came_ = 0;  // Pictures of the form.
    bool decided_ = false;
    std::shared_ptr<const SwsScaler> scaler_;
    SwsScaler::Scratch scratch_;
};

// Scales pictures and converts them to bytes of RGB, BGR or gray in one step, as FFmpeg's filters scale and format do
// with the same interpolation, without a filter graph. One thread at a time. All errors are MediaErrors.
class VideoScaler {
  public:
    // Returns the scaled picture, valid until the next call.
    const AVFrame& scale(const AVFrame& frame, Size size, Channels channels, Interpolation interpolation);

  private:
    void prepare(const AVFrame& frame, Size size, AVPixelFormat format, Interpolation interpolation);

    SwsContextPtr context_;
    FramePtr form_;  // What the context was made for.
    FramePtr scaled_;
    Interpolation interpolation_ = Interpolation::kBicubic;
};

// A description of filters that scales pictures, and may convert them to packed RGB or to YUV 4:2:0, as
// get_video_filter_desc writes it, in three parts. Each is in FFmpeg's own syntax.
struct ScaleDescription {
    std::string before;  // Choose frames by their times; "" for none.
    std::string scale;   // Scale, pad, crop, and convert: one frame in, one frame out.
    std::string after;   // Continue, cut and mirror; "" for none.

    // What `scale` says. Sides of 0 mean the picture's.
    Interpolation interpolation = Interpolation::kBicubic;
    AVPixelFormat format = AV_PIX_FMT_NONE;  // That of the picture if none is said.
    std::optional<Size> pad;
    std::optional<Size> crop;    // After scaling.
    std::optional<Size> center;  // Cropped after all of that.
};

// Returns nothing if the description is any other.
std::optional<ScaleDescription> parse_scale_description(const std::string& description);

// Scales pictures to packed RGB or YUV 4:2:0, pads and crops them as FFmpeg's filters do. The filters do so until a
// SwsScaler is there for the pictures and has given the same as they do; what else they set in a frame is learned from
// them. One thread at a time. All errors are MediaErrors.
class ScaleStage {
  public:
    // For frames like `first`. Errors quote `whole`, the description of all filters.
    ScaleStage(const AVFrame& first, AVRational time_base, AVRational frame_rate, ScaleDescription description,
               const std::string& whole);

    // Returns whether there are other ways than the filters' for such frames.
    static bool may_take(const AVFrame& first, const ScaleDescription& description);
    [[nodiscard]] bool may_be_fast(const AVFrame& first) const;

    // Returns whether a frame has the form that the stage was made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const { return filters_.takes(frame); }

    FramePtr run(FramePtr frame);

    [[nodiscard]] AVRational time_base() const { return filters_.time_base(); }
    [[nodiscard]] AVRational frame_rate() const { return filters_.frame_rate(); }

  private:
    FramePtr filter(FramePtr frame);
    [[nodiscard]] bool place(const AVFrame& filtered, AVPixelFormat format);
    FramePtr scale(const AVFrame& frame, const SwsScaler& scaler);

    ScaleDescription description_;
    FilterChain filters_;
    bool by_filters_ = false;  // For good.
    FastScaling fast_;
    Size scaled_;
    Box part_;      // Of the scaled picture, that is shown,
    int left_ = 0;  // and where.
    int top_ = 0;
    FramePtr sample_;      // What the filters gave: the colour around the picture, and properties,
    FramePtr sampled_of_;  // of a frame with these properties.
};

}  // namespace spdl
