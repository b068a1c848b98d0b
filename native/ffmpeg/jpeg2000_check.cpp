#include "ffmpeg/jpeg2000_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// ISO/IEC 15444-1.
constexpr std::uint32_t kStart = 0xff4f;
constexpr std::uint32_t kTilePart = 0xff90;
constexpr std::uint32_t kEnd = 0xffd9;
constexpr std::uint32_t kFirstMarker = 0xff00;
constexpr std::size_t kTilePartHeader = 12;

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the image as jpeg2000: " + what);
}

// A file of boxes says twice how large its picture is.
void check_size_in_header(Bytes header, Bytes code) {
    constexpr std::uint32_t kImage = 0x69686472;  // "ihdr", which comes first.
    constexpr std::size_t kImageSize = 22;
    const auto number = [](Bytes in, std::size_t at) { return read_integer(in, at, 4, false); };
    if (number(header, 0) != kImageSize || number(header, 4) != kImage ||
        number(header, 8) != number(code, 12) - number(code, 20) ||
        number(header, 12) != number(code, 8) - number(code, 16)) {
        fail("its header is not that of its picture");
    }
}

// Returns the code within the boxes of a file; all of it if there are none.
Bytes code_of(Bytes file) {
    constexpr std::uint32_t kHeader = 0x6a703268;  // "jp2h"
    constexpr std::uint32_t kCode = 0x6a703263;    // "jp2c"
    if (read_integer(file, 0, 2, false) == kStart) {
        return file;
    }
    Bytes picture_header;
    for (Bytes boxes = file; boxes.size() >= 8;) {
        std::uint64_t size = read_integer(boxes, 0, 4, false);
        std::size_t header = 8;
        if (size == 1) {
            size = std::uint64_t{read_integer(boxes, 8, 4, false)} << 32U | read_integer(boxes, 12, 4, false);
            header = 16;
        } else if (size == 0) {
            size = boxes.size();
        }
        if (size < header || size > boxes.size()) {
            fail("one of its boxes is said to have " + std::to_string(size) + " bytes of " +
                 std::to_string(boxes.size()));
        }
        const Bytes content = boxes.subspan(header, static_cast<std::size_t>(size) - header);
        const std::uint32_t name = read_integer(boxes, 4, 4, false);
        if (name == kHeader) {
            picture_header = content;
        } else if (name == kCode) {
            check_size_in_header(picture_header, content);
            return content;
        }
        boxes = boxes.subspan(static_cast<std::size_t>(size));
    }
    fail("there is no picture in it");
}

// Returns what follows the header of the code.
Bytes tile_parts(Bytes code) {
    Bytes rest = tail(code, 2);
    while (true) {
        const std::uint32_t marker = read_integer(rest, 0, 2, false);
        if (marker == kTilePart) {
            return rest;
        }
        const std::size_t size = read_integer(rest, 2, 2, false);
        if (marker < kFirstMarker || size < 2 || size + 2 > rest.size()) {
            fail("its header is damaged");
        }
        rest = rest.subspan(size + 2);
    }
}

}  // namespace

void check_jpeg2000(Bytes bytes) {
    const Bytes code = code_of(bytes);
    if (read_integer(code, 0, 2, false) != kStart) {
        fail("its code does not begin as one");
    }
    Bytes rest = tile_parts(code);
    for (std::size_t part = 1; read_integer(rest, 0, 2, false) == kTilePart; ++part) {
        std::size_t size = read_integer(rest, 6, 4, false);
        if (size == 0) {  // All but the end.
            size = rest.size() - std::min<std::size_t>(rest.size(), 2);
        }
        if (size < kTilePartHeader || size > rest.size()) {
            fail("its tile-part " + std::to_string(part) + " is said to have " + std::to_string(size) + " bytes of " +
                 std::to_string(rest.size()));
        }
        rest = rest.subspan(size);
    }
    if (read_integer(rest, 0, 2, false) != kEnd) {
        fail("its end is missing, or its tile-parts do not follow each other");
    }
}

}  // namespace spdl
