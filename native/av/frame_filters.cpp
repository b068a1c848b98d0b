#include "av/frame_filters.h"

#include <utility>

namespace spdl {

FrameFilters::FrameFilters(const AVFrame& first, AVRational time_base, AVRational frame_rate,
                           const std::string& description)
    : description_(description) {
    split(first, time_base, frame_rate, description);
    if (!stage_) {
        first_.emplace(first, time_base, frame_rate, description);
    }
}

// Makes the stage and what is before it, if the description is one that is better taken apart.
void FrameFilters::split(const AVFrame& first, AVRational time_base, AVRational frame_rate,
                         const std::string& description) {
    auto parts = parse_scale_description(description);
    if (!parts || !ScaleStage::may_take(first, *parts)) {
        return;
    }
    parts_ = *std::move(parts);
    if (!parts_.before.empty()) {
        first_.emplace(first, time_base, frame_rate, parts_.before, description);
        time_base = first_->time_base();
        frame_rate = first_->frame_rate();
    }
    stage_.emplace(first, time_base, frame_rate, parts_, description);
    // A stage with nothing around it is a graph of all filters.
    const bool alone = parts_.before.empty() && parts_.after.empty();
    if (!alone && !stage_->may_be_fast(first)) {
        stage_.reset();
    }
}

bool FrameFilters::takes(const AVFrame& frame) const {
    return first_ ? first_->takes(frame) : stage_->takes(frame);
}

void FrameFilters::add(FramePtr frame) {
    ends_ = ends_ || !frame;
    if (first_) {
        first_->add(std::move(frame));
    } else {
        waiting_ = std::move(frame);
    }
}

// Returns the next frame that is to be scaled.
FramePtr FrameFilters::next() {
    return first_ ? first_->get() : std::exchange(waiting_, nullptr);
}

FramePtr FrameFilters::get() {
    if (!stage_) {
        return first_->get();
    }
    if (parts_.after.empty()) {
        FramePtr frame = next();
        return frame ? stage_->run(std::move(frame)) : nullptr;
    }
    for (;;) {
        if (after_) {
            if (FramePtr finished = after_->get()) {
                return finished;
            }
            if (after_->full()) {
                return nullptr;
            }
        }
        if (FramePtr frame = next()) {
            scaled_to_ = frame->pts;
            add_after(stage_->run(std::move(frame)));
        } else if (ends_ && after_) {
            end_after();
        } else {
            return nullptr;
        }
    }
}

void FrameFilters::add_after(FramePtr made) {
    if (!after_) {
        after_.emplace(*made, stage_->time_base(), stage_->frame_rate(), parts_.after, description_);
    }
    after_->add(std::move(made));
}

// Afterwards the filters behind the scaling are full.
void FrameFilters::end_after() {
    if (first_) {
        // As the filter fps tells those behind it.
        after_->end(scaled_to_ + 1);
    } else {
        after_->add(nullptr);
    }
}

AVRational FrameFilters::time_base() const {
    return stage_ ? stage_->time_base() : first_->time_base();
}

}  // namespace spdl
