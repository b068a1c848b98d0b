#include "core/png_chunk.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstdint>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

constexpr std::size_t kHead = 8;  // Size and type.
constexpr std::size_t kChecksum = 4;

// Names are of letters. Pillow takes these, too.
bool may_be_in_name(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
}

// The name of a profile is followed by a null character and the number of the method.
void check_profile(Bytes data) {
    const auto name_end = std::ranges::find(data, std::uint8_t{0});
    if (data.end() - name_end >= 2 && name_end[1] != 0) {
        refuse_png("its colour profile is compressed by the unknown method " + std::to_string(name_end[1]));
    }
}

}  // namespace

std::optional<PngChunk> read_png_chunk(Bytes bytes, std::size_t at) noexcept {
    if (at > bytes.size() || bytes.size() - at < kHead) {
        return std::nullopt;
    }
    const Bytes chunk = bytes.subspan(at);
    const std::size_t size = read_integer(chunk, 0, 4, false);
    const std::size_t present = std::min(size, chunk.size() - kHead);
    return PngChunk{{reinterpret_cast<const char*>(chunk.data()) + 4, 4},
                    chunk.subspan(kHead, present),
                    at,
                    at + kHead + size + kChecksum,
                    read_integer(chunk, kHead + size, kChecksum, false),
                    size + kChecksum <= chunk.size() - kHead};
}

void check_png_chunk(const PngChunk& chunk) {
    const std::string_view type = chunk.type;
    if (!std::ranges::all_of(type, may_be_in_name)) {
        refuse_png("a chunk has no name of four letters");
    }
    if (!chunk.complete) {
        throw MediaError("cannot decode the PNG: the data is truncated: it ends within a chunk " + std::string(type));
    }
    if (libdeflate_crc32(libdeflate_crc32(0, type.data(), type.size()), chunk.data.data(), chunk.data.size()) !=
        chunk.checksum) {
        refuse_png("the checksum of a chunk " + std::string(type) + " is wrong");
    }
    if (type == "iCCP") {
        check_profile(chunk.data);
    }
}

void refuse_png(const std::string& reason) {
    throw MediaError("cannot decode the PNG: the data is damaged: " + reason);
}

}  // namespace spdl
