#include "ffmpeg/qoi_check.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// As https://qoiformat.org/qoi-specification.pdf has it.
bool is_complete(Bytes bytes) {
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

void check_qoi(Bytes qoi) {
    if (!is_complete(qoi)) {
        throw MediaError("the QOI is truncated: its " + std::to_string(qoi.size()) +
                         " bytes end before its picture does");
    }
}

}  // namespace spdl
