#include "av/loss_watch.h"

#include <string_view>

#include "av/key_frame.h"

namespace spdl {
namespace {

// Returns whether FFmpeg says with this line that what it makes of a packet is not what was encoded: that JPEG ends too
// early, or that checksums differ. It says nothing of that with its result.
bool tells_damage(AVCodecID codec, std::string_view line) {
    const auto has = [&](std::string_view words) { return line.find(words) != std::string_view::npos; };
    switch (codec) {
        case AV_CODEC_ID_MJPEG:
            return has("overread");
        case AV_CODEC_ID_FFV1:
            return has("CRC mismatch");
        case AV_CODEC_ID_MLP:
        case AV_CODEC_ID_TRUEHD:
            return has("checksum") || has("parity check");
        default:
            return false;
    }
}

}  // namespace

LossWatch::LossWatch(const std::shared_ptr<const Stream>& stream) : stream_(stream) {
    if (stream->parameters->codec_id == AV_CODEC_ID_H264) {
        numbers_.emplace(*stream->parameters);
    }
}

bool LossWatch::is_watched() const {
    const AVCodecID codec = stream_->parameters->codec_id;
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_MJPEG ||
           codec == AV_CODEC_ID_FFV1 || codec == AV_CODEC_ID_MLP || codec == AV_CODEC_ID_TRUEHD;
}

void LossWatch::see(const AVPacket& packet) {
    if (!is_watched()) {
        return;
    }
    packet_ = packet.pts;
    if (is_key(packet, *stream_)) {
        // It does not need what is missing before it.
        lost_before_ = (numbers_ && numbers_->misses_one(packet)) || lost_;
        lost_ = false;
        has_key_ = true;
        last_key_ = packet.pts;
        return;
    }
    lost_ = (numbers_ && numbers_->misses_one(packet) && has_key_) || lost_;
    // What is shown before a key frame may build on what was decoded before it.
    const bool leading = lost_before_ && packet_ < last_key_;
    if (packet_ != AV_NOPTS_VALUE && (lost_ || leading)) {
        doubtful_.insert(packet_);
    }
}

void LossWatch::hear(const std::string& line) {
    const AVCodecID codec = stream_->parameters->codec_id;
    if (!tells_damage(codec, line) && (codec != AV_CODEC_ID_HEVC || !has_key_ || line.empty() ||
                                       line.find("Could not find ref with POC") == std::string::npos)) {
        return;
    }
    lost_ = codec == AV_CODEC_ID_HEVC;
    if (packet_ != AV_NOPTS_VALUE) {
        doubtful_.insert(packet_);
    }
}

void LossWatch::reset() {
    if (numbers_) {
        numbers_->reset();
    }
    doubtful_.clear();
    packet_ = AV_NOPTS_VALUE;
    last_key_ = AV_NOPTS_VALUE;
    has_key_ = false;
    lost_ = false;
    lost_before_ = false;
}

}  // namespace spdl
