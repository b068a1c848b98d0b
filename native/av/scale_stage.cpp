#include "av/scale_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "core/media_error.h"

namespace spdl {
namespace {

constexpr int kChannels = 3;

std::uint8_t* pixel(const AVFrame& frame, int x, int y) {
    return frame.data[0] + static_cast<std::ptrdiff_t>(y) * frame.linesize[0] +
           static_cast<std::ptrdiff_t>(x) * kChannels;
}

void copy_pixels(const AVFrame& from, AVFrame& to, const Box& box) {
    if (box.left < box.right) {
        for (int y = box.top; y < box.bottom; ++y) {
            std::memcpy(pixel(to, box.left, y), pixel(from, box.left, y),
                        static_cast<std::size_t>((box.right - box.left) * kChannels));
        }
    }
}

bool same_pixels(const AVFrame& a, const AVFrame& b) {
    for (int y = 0; y < a.height; ++y) {
        if (std::memcmp(pixel(a, 0, y), pixel(b, 0, y), static_cast<std::size_t>(a.width * kChannels)) != 0) {
            return false;
        }
    }
    return true;
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

}  // namespace

ScaleStage::ScaleStage(const AVFrame& first, AVRational time_base, AVRational frame_rate, ScaleDescription description,
                       const std::string& whole)
    : description_(std::move(description)),
      filters_(first, time_base, frame_rate, description_.scale, whole),
      scaled_(filters_.size_behind("scale")) {}

bool ScaleStage::may_take(const AVFrame& first, const ScaleDescription& description) {
    // The size that pictures are scaled to may depend on their own; any other size will do to ask.
    return SwsScaler::form_of(first, {2, first.height + 1}, description.interpolation).has_value();
}

bool ScaleStage::may_be_fast(const AVFrame& first) const {
    const auto form = SwsScaler::form_of(first, scaled_, description_.interpolation);
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
bool ScaleStage::place(const AVFrame& filtered) {
    Size canvas = scaled_;
    int x = 0;
    int y = 0;
    if (description_.pad) {
        const Size size{description_.pad->width == 0 ? canvas.width : description_.pad->width,
                        description_.pad->height == 0 ? canvas.height : description_.pad->height};
        x = (size.width - canvas.width) / 2;
        y = (size.height - canvas.height) / 2;
        canvas = size;
    }
    for (const std::optional<Size>& crop : {description_.crop, description_.center}) {
        if (crop) {
            x -= middle(canvas.width, crop->width);
            y -= middle(canvas.height, crop->height);
            canvas = *crop;
        }
    }
    left_ = std::max(x, 0);
    top_ = std::max(y, 0);
    part_ = {left_ - x, top_ - y, std::min(scaled_.width, canvas.width - x),
             std::min(scaled_.height, canvas.height - y)};
    return filtered.format == AV_PIX_FMT_RGB24 && Size{filtered.width, filtered.height} == canvas &&
           part_.left < part_.right && part_.top < part_.bottom;
}

FramePtr ScaleStage::run(FramePtr frame) {
    const SwsScaler* const scaler = by_filters_ ? nullptr : fast_.find(*frame, scaled_, description_.interpolation);
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
    by_filters_ = !place(*filtered) || !same_pixels(*scale(*frame, *scaler), *filtered);
    return filtered;
}

FramePtr ScaleStage::scale(const AVFrame& frame, const SwsScaler& scaler) {
    FramePtr made = make_frame();
    made->format = AV_PIX_FMT_RGB24;
    made->width = sample_->width;
    made->height = sample_->height;
    if (av_frame_get_buffer(made.get(), 0) < 0 || av_frame_copy_props(made.get(), &frame) < 0) {
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
    scaler.scale(frame, part_, pixel(*made, left_, top_), made->linesize[0], fast_.scratch());
    return made;
}

}  // namespace spdl
