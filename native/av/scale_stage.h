#pragma once

#include <optional>
#include <string>

#include "av/sws_scaler.h"
#include "core/geometry.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/libav.h"
#include "media/pixel_format.h"

namespace spdl {

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
