#pragma once

#include <mutex>

#include "ffmpeg/demux.h"
#include "media/packet.h"

namespace spdl {

// One of FFmpeg's packets.
class FfmpegPacket final : public Packet {
  public:
    explicit FfmpegPacket(ImagePacket packet);

    [[nodiscard]] std::size_t bytes() const override { return static_cast<std::size_t>(packet_.packet->size); }

    // Containers need not say what they hold, so this decodes the image with the default options.
    [[nodiscard]] const CodecInfo& info() const override;

    [[nodiscard]] EncodedImage image() const override { return {{packet_.packet->data, bytes()}, {}, this}; }

    [[nodiscard]] const ImagePacket& get() const { return packet_; }

  private:
    ImagePacket packet_;
    mutable std::once_flag examined_;
    mutable CodecInfo info_;
};

}  // namespace spdl
