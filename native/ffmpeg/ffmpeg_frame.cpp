#include "ffmpeg/ffmpeg_frame.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace spdl {

FfmpegFrame::FfmpegFrame(FramePtr frame, AVRational time_base) : frame_(std::move(frame)), time_base_(time_base) {}

Picture FfmpegFrame::picture() const {
    Picture picture{{frame_->width, frame_->height}, ffmpeg_format_name(frame_->format)};
    std::copy_n(std::begin(frame_->data), picture.planes.size(), picture.planes.begin());
    std::copy_n(std::begin(frame_->linesize), picture.row_distances.size(), picture.row_distances.begin());
    return picture;
}

int FfmpegFrame::num_planes() const {
    return av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame_->format));
}

std::size_t FfmpegFrame::bytes() const {
    std::size_t size = 0;
    for (const AVBufferRef* const plane : frame_->buf) {
        size += plane == nullptr ? 0 : plane->size;
    }
    return size;
}

FrameProperties FfmpegFrame::properties() const {
    static_assert(FrameProperties::kNoTime == AV_NOPTS_VALUE);
    FrameProperties properties{frame_->pts, {time_base_.num, time_base_.den}, {}};
    const AVDictionaryEntry* entry = nullptr;
    while ((entry = av_dict_get(frame_->metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
        properties.metadata.emplace_back(entry->key, entry->value);
    }
    return properties;
}

void FfmpegFrame::set_properties(const FrameProperties& properties) {
    frame_->pts = properties.time;
    time_base_ = {properties.time_base.numerator, properties.time_base.denominator};
    for (const auto& [key, value] : properties.metadata) {
        if (av_dict_set(&frame_->metadata, key.c_str(), value.c_str(), 0) < 0) {
            throw std::bad_alloc();
        }
    }
}

std::unique_ptr<Frame> FfmpegFrame::clone() const {
    return std::make_unique<FfmpegFrame>(reference(*frame_), time_base_);
}

FfmpegFrame& as_ffmpeg(Frame& frame) {
    return dynamic_cast<FfmpegFrame&>(frame);
}

const FfmpegFrame& as_ffmpeg(const Frame& frame) {
    return dynamic_cast<const FfmpegFrame&>(frame);
}

const char* ffmpeg_format_name(int format) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
    return name == nullptr ? "unknown" : name;
}

}  // namespace spdl
