#include "ffmpeg/png_chunks.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/aligned_buffer.h"
#include "core/bounded_read.h"
#include "core/decompressor.h"
#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {
namespace {

constexpr std::size_t kSignature = 8;
constexpr std::size_t kHead = 8;  // The length and the name of a chunk.
constexpr std::size_t kChecksum = 4;

[[noreturn]] void refuse_png(const std::string& reason) {
    throw MediaError("cannot decode the PNG: the data is damaged: " + reason);
}

// Names are of letters. Pillow takes these, too.
bool may_be_in_name(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
}

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
    if (content[from - 1] != 0) {
        refuse_png("its colour profile is compressed by the unknown method " + std::to_string(content[from - 1]));
    }
    return inflates(content.subspan(from));
}

}  // namespace

std::vector<ByteRange> check_png_chunks(Bytes png) {
    std::vector<ByteRange> left_out;
    bool pixels = false;
    for (std::size_t at = kSignature; at + kHead <= png.size();) {
        const std::size_t length = read_integer(png, at, 4, false);
        const std::string_view name(reinterpret_cast<const char*>(png.data()) + at + 4, 4);
        if (name == "IEND" || (pixels && name != "IDAT")) {
            break;
        }
        if (!std::ranges::all_of(name, may_be_in_name)) {
            refuse_png("a chunk has no name of four letters");
        }
        pixels = name == "IDAT";
        const std::size_t rest = png.size() - at - kHead;
        if (rest < kChecksum || length > rest - kChecksum) {
            throw MediaError("cannot decode the PNG: the data is truncated: it ends within a chunk " +
                             std::string(name));
        }
        const std::size_t checksum = read_integer(png, at + kHead + length, kChecksum, false);
        if (libdeflate_crc32(0, png.data() + at + 4, 4 + length) != checksum) {
            refuse_png("the checksum of a chunk " + std::string(name) + " is wrong");
        }
        if (name == "IHDR" && length >= 12 && png[at + kHead + 11] != 0) {
            refuse_png("its pixels are filtered by the unknown method " + std::to_string(png[at + kHead + 11]));
        }
        if (name == "iCCP" && !is_sound_profile(png.subspan(at + kHead, length))) {
            left_out.push_back({at, kHead + length + kChecksum});
        }
        at += kHead + length + kChecksum;
    }
    return left_out;
}

}  // namespace spdl
