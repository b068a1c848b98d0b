#include "ffmpeg/truncation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/media_error.h"

namespace spdl {
namespace {

// As https://www.w3.org/Graphics/GIF/spec-gif89a.txt has them.
constexpr std::size_t kScreenSize = 13;  // The signature and the logical screen's descriptor.
constexpr std::size_t kPictureSize = 9;  // A picture's descriptor, without the byte that introduces it.
constexpr std::uint8_t kPicture = 0x2c;
constexpr std::uint8_t kExtension = 0x21;

// Windows' bitmaps: the header of the file and the smallest with a compression, and the compressions without any.
constexpr std::size_t kBitmapHeader = 54;
constexpr std::uint64_t kPlain = 0;
constexpr std::uint64_t kPlainWithMasks = 3;

std::size_t color_table_size(std::uint8_t flags) {
    return (flags & 0x80U) != 0 ? std::size_t{3} << ((flags & 7U) + 1) : 0;
}

// Returns the end of the data whose first part begins at `at`: a part of no bytes. Returns a place past the end of
// `bytes` if there is none.
std::size_t end_of_parts(Bytes bytes, std::size_t at) {
    while (at < bytes.size() && bytes[at] != 0) {
        at += std::size_t{1} + bytes[at];
    }
    return at + 1;
}

bool gif_is_complete(Bytes bytes) {
    std::size_t at = kScreenSize + color_table_size(bytes[kScreenSize - 3]);
    while (at < bytes.size() && bytes[at] == kExtension) {
        at = end_of_parts(bytes, at + 2);
    }
    if (at < bytes.size() && bytes[at] != kPicture) {
        return true;  // FFmpeg decides.
    }
    const std::size_t flags = at + kPictureSize;
    // The size of the codes follows the colours.
    return flags < bytes.size() && end_of_parts(bytes, flags + 1 + color_table_size(bytes[flags]) + 1) <= bytes.size();
}

std::uint64_t little_endian(Bytes bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) {
        value = value << 8U | bytes[at + i];
    }
    return value;
}

// Some writers do not pad rows to a multiple of four bytes, or write a wrong size of the file. Data is missing if both
// sizes say so.
bool bmp_is_complete(Bytes bytes) {
    const std::uint64_t compression = little_endian(bytes, 30, 4);
    if (bytes.size() >= little_endian(bytes, 2, 4) || little_endian(bytes, 14, 4) < 40 ||
        (compression != kPlain && compression != kPlainWithMasks)) {
        return true;
    }
    const auto height = static_cast<std::int32_t>(little_endian(bytes, 22, 4));
    const std::uint64_t rows = height < 0 ? -static_cast<std::int64_t>(height) : height;
    const std::uint64_t row = (little_endian(bytes, 18, 4) * little_endian(bytes, 28, 2) + 31) / 32 * 4;
    const std::uint64_t pixels = bytes.size() - std::min<std::uint64_t>(bytes.size(), little_endian(bytes, 10, 4));
    return rows == 0 || row <= pixels / rows;
}

bool begins_with(Bytes bytes, std::string_view signature, std::size_t least) {
    return bytes.size() >= least && std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

}  // namespace

void check_complete(Bytes bytes) {
    const char* cut = nullptr;
    if (begins_with(bytes, "GIF8", kScreenSize) && !gif_is_complete(bytes)) {
        cut = "GIF";
    } else if (begins_with(bytes, "BM", kBitmapHeader) && !bmp_is_complete(bytes)) {
        cut = "BMP";
    }
    if (cut != nullptr) {
        throw MediaError(std::string("the ") + cut + " is truncated: its " + std::to_string(bytes.size()) +
                         " bytes end before its picture does");
    }
}

}  // namespace spdl
