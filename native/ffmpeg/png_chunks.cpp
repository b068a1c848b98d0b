#include "ffmpeg/png_chunks.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/aligned_buffer.h"
#include "core/decompressor.h"
#include "core/limits.h"
#include "core/png_chunk.h"

namespace spdl {
namespace {

constexpr std::size_t kSignature = 8;

// Returns whether a zlib stream is sound; true if it inflates to more than is accepted, which others refuse.
bool inflates(Bytes compressed) {
    for (std::size_t room = std::max<std::size_t>(8 * compressed.size(), 4096); room <= kMaxMetadata; room *= 2) {
        const AlignedBuffer result(room);
        std::size_t made = 0;
        const libdeflate_result code = libdeflate_zlib_decompress(decompressor(), compressed.data(), compressed.size(),
                                                                  result.data(), result.size(), &made);
        if (code != LIBDEFLATE_INSUFFICIENT_SPACE) {
            return code != LIBDEFLATE_BAD_DATA;
        }
    }
    return true;
}

// Returns whether FFmpeg can read a colour profile. Its name is followed by a null character and the number of the
// method.
bool is_sound_profile(Bytes content) {
    constexpr std::size_t kMaxName = 79;
    const Bytes head = content.first(std::min(content.size(), kMaxName + 1));
    const auto name_end = std::ranges::find(head, std::uint8_t{0});
    const auto from = static_cast<std::size_t>(name_end - head.begin()) + 2;
    if (name_end == head.end() || from > content.size()) {
        return false;
    }
    return inflates(content.subspan(from));
}

}  // namespace

std::vector<ByteRange> check_png_chunks(Bytes png) {
    std::vector<ByteRange> left_out;
    bool pixels = false;
    std::size_t at = kSignature;
    while (const std::optional<PngChunk> chunk = read_png_chunk(png, at)) {
        const Bytes data = chunk->data;
        if (chunk->type == "IEND" || (pixels && chunk->type != "IDAT")) {
            break;
        }
        check_png_chunk(*chunk);
        pixels = chunk->type == "IDAT";
        if (chunk->type == "IHDR" && data.size() >= 12 && data[11] != 0) {
            refuse_png("its pixels are filtered by the unknown method " + std::to_string(data[11]));
        }
        if (chunk->type == "iCCP" && !is_sound_profile(data)) {
            left_out.push_back({chunk->begin, chunk->end - chunk->begin});
        }
        at = chunk->end;
    }
    return left_out;
}

}  // namespace spdl
