#include "av/scale_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/picture_memory.h"

namespace spdl {
namespace {

// One plane of a picture: how many bytes a sample takes, and how many columns and rows share it, as a power of two.
struct PlaneForm {
    int index;
    int bytes;
    int shift;
};

std::span<const PlaneForm> planes_of(const AVFrame& picture) {
    static constexpr PlaneForm kRgb[] = {{0, 3, 0}};
    static constexpr PlaneForm kYuv[] = {{0, 1, 0}, {1, 1, 1}, {2, 1, 1}};
    return picture.format == AV_PIX_FMT_RGB24 ? std::span<const PlaneForm>(kRgb) : kYuv;
}

// Where a box lies on a plane. It begins at even columns and rows where these share samples.
Box on_plane(const Box& box, const PlaneForm& plane) {
    const int more = (1 << plane.shift) - 1;
    return {box.left >> plane.shift, box.top >> plane.shift, (box.right + more) >> plane.shift,
            (box.bottom + more) >> plane.shift};
}

std::uint8_t* sample(const AVFrame& frame, const PlaneForm& plane, int x, int y) {
    return frame.data[plane.index] + static_cast<std::ptrdiff_t>(y) * frame.linesize[plane.index] +
           static_cast<std::ptrdiff_t>(x) * plane.bytes;
}

// Calls `use` with each row of a box, of both pictures, and the number of its bytes. Stops if it returns false.
template <typename Use>
bool each_row(const AVFrame& a, const AVFrame& b, const Box& box, const Use& use) {
    for (const PlaneForm& plane : planes_of(a)) {
        const Box part = on_plane(box, plane);
        for (int y = part.top; part.left < part.right && y < part.bottom; ++y) {
            if (!use(sample(a, plane, part.left, y), sample(b, plane, part.left, y),
                     static_cast<std::size_t>(part.size().width * plane.bytes))) {
                return false;
            }
        }
    }
    return true;
}

void copy_pixels(const AVFrame& from, AVFrame& to, const Box& box) {
    each_row(from, to, box, [](const std::uint8_t* row, std::uint8_t* copy, std::size_t bytes) {
        std::memcpy(copy, row, bytes);
        return true;
    });
}

bool same_pixels(const AVFrame& a, const AVFrame& b) {
    return each_row(a, b, whole({a.width, a.height}),
                    [](const std::uint8_t* row, const std::uint8_t* other, std::size_t bytes) {
                        return std::memcmp(row, other, bytes) == 0;
                    });
}

// Returns whether the filters set the same properties, which the form of a frame does not tell.
bool same_properties(const AVFrame& a, const AVFrame& b) {
    return a.sample_aspect_ratio.num == b.sample_aspect_ratio.num &&
           a.sample_aspect_ratio.den == b.sample_aspect_ratio.den && a.color_primaries == b.color_primaries &&
           a.color_trc == b.color_trc && a.chroma_location == b.chroma_location;
}

// As the filter crop finds the middle.
int middle(int from, int to) {
    return static_cast<int>(std::lrint((from - to) / 2.0));
}

// Returns the form of the scaling that a description asks for, if a SwsScaler may do it.
std::optional<SwsScaler::Form> form_of(const AVFrame& frame, Size to, const ScaleDescription& description) {
    const bool kept = description.format == AV_PIX_FMT_NONE;
    const auto format = kept ? static_cast<AVPixelFormat>(frame.format) : description.format;
    return SwsScaler::form_of(frame, to, format, description.interpolation);
}

}  // namespace

ScaleStage::ScaleStage(const AVFrame& first, AVRational time_base, AVRational frame_rate, ScaleDescription description,
                       const std::string& whole)
    : description_(std::move(description)),
      filters_(first, time_base, frame_rate, description_.scale, whole),
      scaled_(filters_.size_behind("scale")) {}

bool ScaleStage::may_take(const AVFrame& first, const ScaleDescription& description) {
    // The size that pictures are scaled to may depend on their own; any other size will do to ask.
    return form_of(first, {2, first.height + 1}, description).has_value();
}

bool ScaleStage::may_be_fast(const AVFrame& first) const {
    const auto form = form_of(first, scaled_, description_);
    // One that was made before and gives something else than the filters will not be used.
    return form && SwsScaler::known(*form) != std::shared_ptr<const SwsScaler>();
}

FramePtr ScaleStage::filter(FramePtr frame) {
    filters_.add(std::move(frame));
    FramePtr filtered = filters_.get();
    if (!filtered) {
        throw MediaError("cannot scale the picture: the filters give none");
    }
    return filtered;
}

// Finds where the scaled picture lies on what the filters give. Returns whether that can be.
bool ScaleStage::place(const AVFrame& filtered, AVPixelFormat format) {
    // Where two columns and two rows share their chroma, the filters keep them together.
    const auto step = [&](int distance) { return format == AV_PIX_FMT_RGB24 ? distance : distance / 2 * 2; };
    Size canvas = scaled_;
    int x = 0;
    int y = 0;
    if (description_.pad) {
        const Size size{description_.pad->width == 0 ? canvas.width : description_.pad->width,
                        description_.pad->height == 0 ? canvas.height : description_.pad->height};
        x = step((size.width - canvas.width) / 2);
        y = step((size.height - canvas.height) / 2);
        canvas = size;
    }
    for (const std::optional<Size>& crop : {description_.crop, description_.center}) {
        if (crop) {
            x -= step(middle(canvas.width, crop->width));
            y -= step(middle(canvas.height, crop->height));
            canvas = *crop;
        }
    }
    left_ = std::max(x, 0);
    top_ = std::max(y, 0);
    part_ = {left_ - x, top_ - y, std::min(scaled_.width, canvas.width - x),
             std::min(scaled_.height, canvas.height - y)};
    // Beside a picture with an odd side, the filters pad over its last chroma, too.
    const bool shares = description_.pad && format != AV_PIX_FMT_RGB24 && (scaled_.width | scaled_.height) % 2 != 0;
    return !shares && filtered.format == format && Size{filtered.width, filtered.height} == canvas &&
           part_.left < part_.right && part_.top < part_.bottom;
}

FramePtr ScaleStage::run(FramePtr frame) {
    const SwsScaler* const scaler = by_filters_ ? nullptr : fast_.find(form_of(*frame, scaled_, description_));
    if (scaler == nullptr) {
        return filter(std::move(frame));
    }
    if (sample_) {
        return same_properties(*frame, *sampled_of_) ? scale(*frame, *scaler) : filter(std::move(frame));
    }
    FramePtr filtered = filter(reference(*frame));
    sample_ = reference(*filtered);
    sampled_of_ = make_frame();
    if (av_frame_copy_props(sampled_of_.get(), frame.get()) < 0) {
        throw std::bad_alloc();
    }
    by_filters_ = !place(*filtered, scaler->form().to_format) || !same_pixels(*scale(*frame, *scaler), *filtered);
    return filtered;
}

FramePtr ScaleStage::scale(const AVFrame& frame, const SwsScaler& scaler) {
    FramePtr made = make_frame();
    made->format = sample_->format;
    made->width = sample_->width;
    made->height = sample_->height;
    allocate_picture(*made);
    if (av_frame_copy_props(made.get(), &frame) < 0) {
        throw std::bad_alloc();
    }
    made->sample_aspect_ratio = sample_->sample_aspect_ratio;
    made->colorspace = sample_->colorspace;
    made->color_range = sample_->color_range;
    made->color_primaries = sample_->color_primaries;
    made->color_trc = sample_->color_trc;
    made->chroma_location = sample_->chroma_location;
    const int right = left_ + part_.right - part_.left;
    const int bottom = top_ + part_.bottom - part_.top;
    copy_pixels(*sample_, *made, {0, 0, made->width, top_});
    copy_pixels(*sample_, *made, {0, top_, left_, bottom});
    copy_pixels(*sample_, *made, {right, top_, made->width, bottom});
    copy_pixels(*sample_, *made, {0, bottom, made->width, made->height});
    scaler.scale(frame, part_, *made, left_, top_, fast_.scratch());
    return made;
}

}  // namespace spdl
