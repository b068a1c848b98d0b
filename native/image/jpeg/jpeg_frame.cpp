#include "image/jpeg/jpeg_frame.h"

#include <cstddef>

namespace spdl {
namespace {

constexpr std::uint8_t kJpegLs = 0xf7;
constexpr std::uint8_t kScan = 0xda;

// Returns whether the marker begins a frame header: not that of a table, nor one that is reserved.
bool begins_frame(std::uint8_t marker) noexcept {
    return (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) ||
           marker == kJpegLs;
}

// Returns whether no length follows the marker.
bool stands_alone(std::uint8_t marker) noexcept {
    return marker == 1 || (marker >= 0xd0 && marker <= 0xd7);
}

}  // namespace

JpegFrame jpeg_frame(Bytes jpeg) noexcept {
    std::size_t at = 2;
    while (at + 10 <= jpeg.size()) {
        const std::uint8_t marker = jpeg[at + 1];
        if (jpeg[at] != 0xff || marker == 0 || marker == 0xff) {
            ++at;  // As in libjpeg, what is no marker does not count.
        } else if (begins_frame(marker)) {
            return {marker, jpeg[at + 4], jpeg[at + 9]};
        } else if (marker == kScan) {
            break;
        } else {
            at += 2 + (stands_alone(marker) ? 0 : std::size_t{jpeg[at + 2]} << 8U | jpeg[at + 3]);
        }
    }
    return {};
}

}  // namespace spdl
