#include "av/frame_picker.h"

#include <string>
#include <utility>

#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {

FramePicker::FramePicker(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options, PacketFeed& feed,
                         const VideoIndex& index)
    : decoder_(index.settled(stream), options), feed_(feed), index_(index) {}

void FramePicker::pick(const std::vector<std::size_t>& frames, const Take& take) {
    try {
        for (const std::size_t frame : frames) {
            take(frame, decode(frame));
        }
    } catch (...) {
        next_ = kNone;
        throw;
    }
}

FramePtr FramePicker::decode(std::size_t frame) {
    const bool ahead = next_ != kNone && (passed_ == kNone || passed_ < frame);
    if (ahead && index_.start(frame, 0) <= next_) {
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
    }
    // What a file calls a key frame may not be one. Begin at ever earlier ones.
    for (const int keys_back : {0, 1, 4}) {
        const std::size_t start = index_.start(frame, keys_back);
        go_to(start);
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
        if (start == 0) {
            break;
        }
    }
    if (index_.start(frame, 4) != 0) {
        go_to(0);
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
    }
    throw MediaError("cannot decode the " + decoder_.stream().describe() + ": its packets announce a frame " +
                     std::to_string(frame) + " at " + std::to_string(index_.seconds(frame, decoder_.stream())) +
                     " s, but the decoder makes none of them");
}

void FramePicker::go_to(std::size_t position) {
    decoder_.reset();
    feed_.seek(position);
    next_ = position;
    passed_ = kNone;
}

std::size_t FramePicker::frame_of(const AVFrame& decoded) {
    if (index_.timed()) {
        return index_.frame_at(decoded.pts);
    }
    return passed_ == kNone ? 0 : passed_ + 1;
}

// Returns null if the frame does not come.
FramePtr FramePicker::decode_from_here(std::size_t frame) {
    const std::int64_t wanted = index_.time(frame);
    for (bool ended = false;;) {
        while (FramePtr decoded = decoder_.get()) {
            const bool exact = !index_.timed() || decoded->pts == wanted;
            const std::size_t found = frame_of(*decoded);
            if (found == index_.num_frames()) {
                continue;  // It is shown before the first frame.
            }
            passed_ = found;
            if (found == frame && exact) {
                decoded->pts = wanted;
                decoder_.check(*decoded);
                return decoded;
            }
            if (found >= frame && index_.timed()) {
                next_ = kNone;
                return nullptr;
            }
        }
        if (ended) {
            next_ = kNone;
            return nullptr;
        }
        check_interrupt();
        const PacketPtr packet = feed_.next();
        ended = !packet;
        if (packet) {
            next_ = feed_.position() + 1;
            // Frames that no other builds on need not be decoded if nobody wants them.
            const bool needed = !index_.timed() || time_of(*packet) >= wanted;
            decoder_.add(packet.get(), needed);
        } else {
            decoder_.add(nullptr);
        }
    }
}

}  // namespace spdl
