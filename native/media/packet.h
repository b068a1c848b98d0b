#pragma once

#include <cstddef>
#include <memory>

#include "media/codec_info.h"
#include "media/encoded_image.h"

namespace spdl {

// One encoded image, found and delimited but not decoded. Immutable: any number of threads may decode it.
class Packet {
  public:
    virtual ~Packet() = default;
    Packet(const Packet&) = delete;
    Packet& operator=(const Packet&) = delete;

    // Returns the encoded size.
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    // Decodes the image, once, if only the decoder knows. Throws MediaError then.
    [[nodiscard]] virtual const CodecInfo& info() const = 0;

    // Returns the image for a decoder. It is valid as long as the packet lives.
    [[nodiscard]] virtual EncodedImage image() const = 0;

  protected:
    Packet() = default;
};

// Bytes that are kept as they are.
class KeptPacket final : public Packet {
  public:
    // `owner` keeps the image's bytes in place.
    KeptPacket(std::shared_ptr<const void> owner, const EncodedImage& image, CodecInfo info);

    [[nodiscard]] std::size_t bytes() const override { return bytes_.size(); }
    [[nodiscard]] const CodecInfo& info() const override { return info_; }
    [[nodiscard]] EncodedImage image() const override { return {bytes_, info_.name, nullptr, page_}; }

  private:
    std::shared_ptr<const void> owner_;
    Bytes bytes_;
    std::optional<std::uint64_t> page_;
    CodecInfo info_;
};

}  // namespace spdl
