#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/geometry.h"
#include "media/decoder.h"

namespace spdl {

// An array (H, W) of ids in memory, in any order of memory.
struct IdArray {
    const std::uint8_t* data = nullptr;
    Size size;
    std::array<std::ptrdiff_t, 2> strides{};  // In bytes.
    ElementType type = ElementType::kUint8;
};

// Delivers an array as if it had been decoded.
class IdArrayDecoder final : public Decoder {
  public:
    // Refuses ids above `most`.
    IdArrayDecoder(const IdArray& array, std::int64_t most) : array_(array), most_(most) {}

    [[nodiscard]] bool accepts(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                               const DecodeOptions& /*decode*/) const noexcept override {
        return false;
    }
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) override;

  private:
    template <typename Id>
    void decode_as(const Box& box, RowSink& sink) const;

    const IdArray& array_;
    std::int64_t most_;
};

}  // namespace spdl
