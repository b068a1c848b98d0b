#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/geometry.h"
#include "media/decoder.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

// An array (H, W) of ids in memory, in any order of memory.
struct IdArray {
    const std::uint8_t* data = nullptr;
    Size size;
    std::array<std::ptrdiff_t, 2> strides{};  // In bytes.
    ElementType type = ElementType::kUint8;
};

// The ids that a batch has room for.
struct IdRange {
    std::int64_t least;
    std::int64_t most;
};

IdRange ids_of(const ArrayFormat& format);

// Throws MediaError if the ids of a file may be others. What they may be decides, not what they are: so batches do not
// differ.
void check_bits(const StoredIds& ids, const ArrayFormat& format);

// Delivers an array as if it had been decoded.
class IdArrayDecoder final : public Decoder {
  public:
    // Refuses other ids.
    IdArrayDecoder(const IdArray& array, const IdRange& accepted) : array_(array), accepted_(accepted) {}

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
    IdRange accepted_;
};

}  // namespace spdl
