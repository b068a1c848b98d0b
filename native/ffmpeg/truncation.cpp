#include "ffmpeg/truncation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Windows' bitmaps: the header of the file and the smallest with a compression, and the compressions without any.
constexpr std::size_t kBitmapHeader = 54;
constexpr std::uint64_t kPlain = 0;
constexpr std::uint64_t kPlainWithMasks = 3;

std::uint64_t little_endian(Bytes bytes, std::size_t at, std::size_t size) {
    return read_integer(bytes, at, size, true);
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

// As https://qoiformat.org/qoi-specification.pdf has it.
bool qoi_is_complete(Bytes bytes) {
    constexpr std::size_t kHeader = 14;
    constexpr std::size_t kMark = 8;
    constexpr std::uint8_t kRgb = 0xfe;
    constexpr std::uint8_t kRgba = 0xff;
    constexpr unsigned kLuma = 2;
    constexpr unsigned kRun = 3;
    const std::uint64_t pixels = std::uint64_t{read_integer(bytes, 4, 4, false)} * read_integer(bytes, 8, 4, false);
    std::uint64_t made = 0;
    std::size_t at = kHeader;
    while (made < pixels && at < bytes.size()) {
        const std::uint8_t byte = bytes[at];
        const unsigned tag = byte >> 6U;
        if (byte == kRgb || byte == kRgba) {
            at += byte == kRgb ? 4 : 5;
            ++made;
        } else {
            at += tag == kLuma ? 2 : 1;
            made += tag == kRun ? (byte & 0x3fU) + 1 : 1;
        }
    }
    // FFmpeg leaves out the last pixels if the mark that ends the file is missing.
    return made >= pixels && at + kMark <= bytes.size();
}

}  // namespace

void check_complete(Bytes bytes, ImageFormat format) {
    const char* cut = nullptr;
    if (format == ImageFormat::kBmp && bytes.size() >= kBitmapHeader && !bmp_is_complete(bytes)) {
        cut = "BMP";
    } else if (format == ImageFormat::kQoi && !qoi_is_complete(bytes)) {
        cut = "QOI";
    }
    if (cut != nullptr) {
        throw MediaError(std::string("the ") + cut + " is truncated: its " + std::to_string(bytes.size()) +
                         " bytes end before its picture does");
    }
}

}  // namespace spdl
