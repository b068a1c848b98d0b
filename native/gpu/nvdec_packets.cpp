#include "gpu/nvdec_packets.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "av/packet_list.h"
#include "core/bytes.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Returns the filter that brings packets into the form of a stream without a container; nothing if they have it.
const char* filter_for(const AVCodecParameters& parameters) {
    const bool boxed = parameters.extradata_size > 0 && parameters.extradata[0] == 1;
    if (boxed && parameters.codec_id == AV_CODEC_ID_H264) {
        return "h264_mp4toannexb";
    }
    return boxed && parameters.codec_id == AV_CODEC_ID_HEVC ? "hevc_mp4toannexb" : nullptr;
}

// Returns what the container says in place of the stream, and the decoder needs first.
std::vector<std::uint8_t> header_of(const AVCodecParameters& parameters) {
    const Bytes extra(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    switch (parameters.codec_id) {
        case AV_CODEC_ID_AV1: {
            // Behind four bytes of a box lies the sequence header.
            constexpr std::size_t kBox = 4;
            const bool boxed = extra.size() > kBox && extra[0] == 0x81;
            const Bytes header = boxed ? extra.subspan(kBox) : Bytes();
            return {header.begin(), header.end()};
        }
        case AV_CODEC_ID_VP8:
        case AV_CODEC_ID_VP9:
            return {};
        default:
            return {extra.begin(), extra.end()};
    }
}

}  // namespace

cuda::VideoCodec nvdec_codec(const Stream& stream, const char* remedy) {
    switch (stream.parameters->codec_id) {
        case AV_CODEC_ID_MPEG1VIDEO:
            return cuda::VideoCodec::kMpeg1;
        case AV_CODEC_ID_MPEG2VIDEO:
            return cuda::VideoCodec::kMpeg2;
        case AV_CODEC_ID_MPEG4:
            return cuda::VideoCodec::kMpeg4;
        case AV_CODEC_ID_H264:
            return cuda::VideoCodec::kH264;
        case AV_CODEC_ID_HEVC:
            return cuda::VideoCodec::kHevc;
        case AV_CODEC_ID_VP8:
            return cuda::VideoCodec::kVp8;
        case AV_CODEC_ID_VP9:
            return cuda::VideoCodec::kVp9;
        case AV_CODEC_ID_AV1:
            return cuda::VideoCodec::kAv1;
        default:
            throw MediaError(stream.describe() + ": NVDEC decodes no " + avcodec_get_name(stream.parameters->codec_id) +
                             "; " + remedy);
    }
}

NvdecPackets::NvdecPackets(std::shared_ptr<const Stream> stream) : stream_(std::move(stream)) {
    const char* const filter = filter_for(*stream_->parameters);
    if (filter != nullptr) {
        filter_ = std::make_unique<BitStreamFilter>(stream_, filter);
    }
    // The filter itself puts the header only in front of pictures that no other may precede, and decoding also begins
    // with others.
    header_ = header_of(filter_ ? *filter_->output()->parameters : *stream_->parameters);
}

void NvdecPackets::add(const AVPacket& packet, const Send& send) {
    if (!filter_) {
        pass(packet, send);
        return;
    }
    std::vector<PacketPtr> filtered;
    filter_->add(reference(packet), filtered);
    for (const PacketPtr& each : filtered) {
        pass(*each, send);
    }
}

void NvdecPackets::flush(const Send& send) {
    if (filter_) {
        std::vector<PacketPtr> rest;
        filter_->flush(rest);
        for (const PacketPtr& each : rest) {
            pass(*each, send);
        }
    }
    first_ = true;
}

void NvdecPackets::pass(const AVPacket& packet, const Send& send) {
    if (is_empty(packet)) {
        return;
    }
    cuda::VideoPacket sent;
    sent.data = packet.data;
    sent.size = static_cast<unsigned long>(packet.size);
    sent.timestamp = time_of(packet);
    sent.flags = sent.timestamp == AV_NOPTS_VALUE ? 0 : cuda::kHasTimestamp;
    std::vector<std::uint8_t> joined;
    if (first_ && !header_.empty()) {
        joined = header_;
        joined.insert(joined.end(), packet.data, packet.data + packet.size);
        sent.data = joined.data();
        sent.size = joined.size();
    }
    first_ = false;
    send(sent);
}

}  // namespace spdl
