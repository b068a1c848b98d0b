#include "av/last_packets.h"

#include <algorithm>
#include <utility>

namespace spdl {
namespace {

std::int64_t lead_in(const AVCodecParameters& sound) {
    // MP3 takes bits from up to 511 bytes back, which are 15 packets of the lowest bit rate. What Opus predicts from
    // the past takes half a second to fade; the 80 ms that its specification asks for leave an error of up to 0.002.
    constexpr int kUsualPackets = 4;
    constexpr int kMp3Packets = 17;
    constexpr int kUsualSamples = 2048;
    if (sound.codec_id == AV_CODEC_ID_OPUS) {
        return sound.sample_rate / 2;
    }
    const int packet = sound.frame_size > 0 ? sound.frame_size : kUsualSamples;
    return std::int64_t{packet} * (sound.codec_id == AV_CODEC_ID_MP3 ? kMp3Packets : kUsualPackets);
}

}  // namespace

bool depends_on_all(const AVCodecParameters& sound) {
    // It draws random numbers for what is too faint to be stored.
    return sound.codec_id == AV_CODEC_ID_AC3;
}

LastPackets::LastPackets(const AVCodecParameters& sound)
    : least_(std::max<std::int64_t>(sound.seek_preroll, lead_in(sound))) {}

void LastPackets::add(PacketPtr packet, std::int64_t samples) {
    samples_ += samples;
    packets_.push_back({std::move(packet), samples});
    while (samples_ - packets_.front().samples >= least_) {
        samples_ -= packets_.front().samples;
        packets_.pop_front();
    }
}

PacketPtr LastPackets::take() {
    if (packets_.empty()) {
        return nullptr;
    }
    PacketPtr packet = std::move(packets_.front().packet);
    packets_.pop_front();
    return packet;
}

}  // namespace spdl
