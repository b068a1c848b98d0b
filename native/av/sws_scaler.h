#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "av/sws_rows.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/pixel_format.h"

namespace spdl {

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

}  // namespace spdl
