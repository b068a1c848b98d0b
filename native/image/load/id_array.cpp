#include "image/load/id_array.h"

#include <cstring>
#include <string>

#include "core/errors.h"
#include "core/sinks.h"

namespace spdl {

IdRange ids_of(const ArrayFormat& format) {
    // On its way, an id has three bytes, of which a file fills two.
    switch (format.element()) {
        case 1:
            return {0, 0xff};
        case 2:
            return {0, 0xffff};
        default:
            return {-0x8000, 0xffff};
    }
}

void check_bits(const StoredIds& ids, const ArrayFormat& format) {
    if (ids.bits > 8 && format.element() == 1) {
        throw MediaError("its ids have " + std::to_string(ids.bits) +
                         " bits, and those of the batch 8: dtype='uint16' has room for them");
    }
}

ImageShape IdArrayDecoder::open(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                                const DecodeOptions& /*decode*/) {
    const int bits = static_cast<int>(8 * element_bytes(array_.type));
    return {.stored = array_.size, .orientation = {}, .ids = {StoredIds::Kind::kLevels, bits}};
}

template <typename Id>
void IdArrayDecoder::decode_as(const Box& box, RowSink& sink) const {
    const auto [down, across] = array_.strides;
    const auto [least, most] = accepted_;
    for (int y = box.top; y < box.bottom; ++y) {
        const std::uint8_t* from = array_.data + y * down + box.left * across;
        std::uint8_t* to = sink.row(y - box.top);
        for (int x = box.left; x < box.right; ++x, from += across, to += 3) {
            Id id;
            std::memcpy(&id, from, sizeof id);
            if (const auto value = static_cast<std::int64_t>(id); value < least || value > most) {
                throw MediaError("the id " + std::to_string(value) + " at row " + std::to_string(y) + ", column " +
                                 std::to_string(x) + " is not from " + std::to_string(least) + " to " +
                                 std::to_string(most));
            }
            put_id(static_cast<unsigned>(id), to);
        }
        sink.commit(y - box.top, 1);
    }
}

void IdArrayDecoder::decode(const Region& region, Place& place) {
    RowSink& sink = place.begin({region.box.size().width, 0});
    switch (array_.type) {
        case ElementType::kUint16:
            return decode_as<std::uint16_t>(region.box, sink);
        case ElementType::kInt32:
            return decode_as<std::int32_t>(region.box, sink);
        case ElementType::kInt64:
            return decode_as<std::int64_t>(region.box, sink);
        default:
            return decode_as<std::uint8_t>(region.box, sink);
    }
}

}  // namespace spdl
