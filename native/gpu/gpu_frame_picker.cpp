#include "gpu/gpu_frame_picker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {
namespace {

constexpr VideoGeometry kPictures{.crop = {}, .scale = {}, .deep = true, .whole = true};

// A video begins with the header of its sequence.
constexpr int kMostForHeader = 64;

}  // namespace

GpuFramePicker::GpuFramePicker(std::shared_ptr<const Stream> stream, PacketFeed& feed, const VideoIndex& index,
                               const GpuVideoReader::Target& target)
    : stream_(std::move(stream)), feed_(feed), index_(index), losses_(stream_), reader_(stream_, kPictures, target) {
    if (!index_.timed()) {
        throw MediaError(stream_->describe() +
                         ": the file does not say when each frame is shown, so frames have to be " +
                         "counted, and NVDEC does not tell which it leaves out; " + target.remedy);
    }
    reader_.set_chunk(kTogether);
    reader_.set_choice([this](std::int64_t time) { return wants(time); });
    // Whoever opens a video learns whether the GPU decodes it.
    go_to(0);
    for (int packets = 0; packets < kMostForHeader && !reader_.has_format() && decode_next(); ++packets) {
    }
}

// Notes what is shown. Frames behind the last wanted one are kept, too, for the next call, since a few come at once.
bool GpuFramePicker::wants(std::int64_t time) {
    const std::size_t frame = index_.frame_at(time);
    if (frame == index_.num_frames()) {
        return false;  // It is shown before the first frame.
    }
    passed_ = frame;
    return index_.time(frame) == time &&
           (wanted_.empty() || std::ranges::binary_search(wanted_, frame) || frame > wanted_.back());
}

void GpuFramePicker::pick(const std::vector<std::size_t>& frames, const Take& take) {
    wanted_ = frames;
    try {
        for (std::size_t at = 0; at < frames.size(); ++at) {
            take(frames[at], decode(frames[at], frames[last_of_run(at)]));
        }
    } catch (...) {
        next_ = kNone;
        shown_.clear();
        throw;
    }
}

// Returns the last of a few wanted frames from `first` on that are decoded without a jump.
std::size_t GpuFramePicker::last_of_run(std::size_t first) const {
    std::size_t last = first;
    while (last + 1 < wanted_.size() && last + 1 < first + kTogether &&
           index_.start(wanted_[last + 1], 0) <= index_.position(wanted_[last])) {
        ++last;
    }
    return last;
}

GpuFrame GpuFramePicker::decode(std::size_t frame, std::size_t last) {
    shown_.erase(shown_.begin(), shown_.lower_bound(frame));
    bool found = shown_.contains(frame);
    const bool ahead = next_ != kNone && (passed_ == kNone || passed_ < frame);
    if (!found && ahead && index_.start(frame, 0) <= next_) {
        found = decode_from_here(frame, last);
    }
    // What a file calls a key frame may not be one. Begin at ever earlier ones.
    constexpr int kKeysBack[] = {0, 1, 4};
    for (std::size_t i = 0; !found && i < std::size(kKeysBack); ++i) {
        const std::size_t start = index_.start(frame, kKeysBack[i]);
        go_to(start);
        found = decode_from_here(frame, last);
        if (start == 0) {
            break;
        }
    }
    if (!found && index_.start(frame, kKeysBack[2]) != 0) {
        go_to(0);
        found = decode_from_here(frame, last);
    }
    const std::string where = std::to_string(index_.seconds(frame, *stream_)) + " s";
    if (!found) {
        throw MediaError("cannot decode the " + stream_->describe() + ": its packets announce a frame " +
                         std::to_string(frame) + " at " + where + ", but NVDEC makes none of them");
    }
    Shown shown = std::move(shown_.extract(frame).mapped());
    if (shown.doubtful) {
        throw MediaError("cannot decode the " + stream_->describe() + " at " + where +
                         ": frames that it builds on are missing");
    }
    return std::move(shown.frame);
}

void GpuFramePicker::go_to(std::size_t position) {
    shown_.clear();
    losses_.reset();
    reader_.restart();
    feed_.seek(position);
    next_ = position;
    passed_ = kNone;
}

void GpuFramePicker::collect() {
    for (const FrameChunk& chunk : reader_.take(true)) {
        for (std::size_t i = 0; i < chunk.times.size(); ++i) {
            const GpuFrame frame{{chunk.memory.owner, chunk.place(i)}, chunk.form};
            shown_.emplace(index_.frame_at(chunk.times[i]), Shown{frame, losses_.is_doubtful(chunk.times[i])});
        }
    }
}

// Decodes the next packet, or finishes the frames of those before. Returns whether there was one.
bool GpuFramePicker::decode_next() {
    check_interrupt();
    const PacketPtr packet = feed_.next();
    if (!packet) {
        reader_.end();
        next_ = kNone;
        return false;
    }
    next_ = feed_.position() + 1;
    losses_.see(*packet);
    reader_.decode(*packet);
    return true;
}

// Returns whether the frame comes. Frames up to `last` are decoded with it.
bool GpuFramePicker::decode_from_here(std::size_t frame, std::size_t last) {
    while ((passed_ == kNone || passed_ < last) && decode_next()) {
    }
    collect();
    const bool found = shown_.contains(frame);
    if (!found) {
        next_ = kNone;
    }
    return found;
}

}  // namespace spdl
