#include "ffmpeg/bmp_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// The header of the file, and the smallest of a bitmap.
constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kOldHeader = 12;

enum Compression : std::uint32_t { kPlain = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3 };

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the image as bmp: " + what);
}

struct Header {
    std::uint64_t file_size;
    std::uint64_t pixels_at;
    std::uint64_t size;
    std::uint64_t width;
    std::uint64_t height;
    std::uint64_t bits;
    std::uint32_t compression = kPlain;
    std::uint64_t colors = 0;
};

std::uint64_t number(Bytes bmp, std::size_t at, std::size_t size) {
    return read_integer(bmp, at, size, true);
}

Header read_header(Bytes bmp) {
    Header header{number(bmp, 2, 4), number(bmp, 10, 4), number(bmp, kFileHeader, 4), 0, 0, 0};
    if (header.size == kOldHeader) {
        header.width = number(bmp, 18, 2);
        header.height = number(bmp, 20, 2);
        header.bits = number(bmp, 24, 2);
    } else {
        header.width = number(bmp, 18, 4);
        const auto height = static_cast<std::int32_t>(number(bmp, 22, 4));  // Below zero for rows from the top on.
        header.height = static_cast<std::uint64_t>(height < 0 ? -static_cast<std::int64_t>(height) : height);
        header.bits = number(bmp, 28, 2);
        header.compression = static_cast<std::uint32_t>(number(bmp, 30, 4));
        header.colors = number(bmp, 46, 4);
    }
    if (header.colors == 0 && header.bits <= 8) {
        header.colors = std::uint64_t{1} << header.bits;
    }
    return header;
}

void check_colors(const Header& header) {
    if (header.bits > 8) {
        return;
    }
    if (header.colors > std::uint64_t{1} << header.bits) {
        fail("it is said to have " + std::to_string(header.colors) + " colours, of which its " +
             std::to_string(header.bits) + " bits name fewer");
    }
    // The old header does not say how many there are: what lies in front of the pixels.
    const std::uint64_t end = kFileHeader + header.size + (header.size == kOldHeader ? 6 : 4 * header.colors);
    if (header.pixels_at < end) {
        fail("its pixels are said to begin at byte " + std::to_string(header.pixels_at) + ", before the end of its " +
             std::to_string(header.colors) + " colours");
    }
}

void check_masks(Bytes bmp, const Header& header) {
    constexpr std::size_t kAt = 54;
    if (header.compression != kMasks || header.bits != 16) {
        return;
    }
    const std::uint64_t masks[] = {number(bmp, kAt, 4), number(bmp, kAt + 4, 4), number(bmp, kAt + 8, 4)};
    constexpr std::uint64_t k565[] = {0xf800, 0x7e0, 0x1f};
    constexpr std::uint64_t k555[] = {0x7c00, 0x3e0, 0x1f};
    if (!std::ranges::equal(masks, k565) && !std::ranges::equal(masks, k555)) {
        fail("its pixels of 16 bits have an order of bits that is not read");
    }
}

// Some writers do not pad rows to a multiple of four bytes, or write a wrong size of the file. Data is missing if both
// sizes say so.
bool is_complete(Bytes bmp, const Header& header) {
    if (bmp.size() >= header.file_size || header.height == 0) {
        return true;
    }
    const std::uint64_t row = (header.width * header.bits + 31) / 32 * 4;
    return row <= tail(bmp, header.pixels_at).size() / header.height;
}

// Follows run lengths, to find out whether they make up all rows.
void check_runs(Bytes bmp, const Header& header) {
    Bytes rest = tail(bmp, header.pixels_at);
    const auto take = [&](std::size_t count) {
        if (rest.size() < count) {
            fail("its run lengths end early");
        }
        const Bytes taken = rest.first(count);
        rest = rest.subspan(count);
        return taken;
    };
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    const auto advance = [&](std::uint64_t count) {
        x += count;
        if (x > header.width || y >= header.height) {
            fail("one of its run lengths does not fit into its row");
        }
    };
    while (y + 1 < header.height || (y < header.height && x < header.width)) {
        const Bytes pair = take(2);
        const std::uint8_t what = pair[1];
        if (pair[0] > 0) {
            advance(pair[0]);
        } else if (what == 0) {
            if (x == 0) {
                fail("one of its rows is left out");
            }
            x = 0;
            ++y;
        } else if (what == 1) {
            fail("its run lengths end before its last row does");
        } else if (what == 2) {
            const Bytes skipped = take(2);
            if (x == header.width) {
                fail("its run lengths leave out the end of a row");
            }
            y += skipped[1];
            advance(skipped[0]);
        } else {
            const std::size_t bytes = header.compression == kRuns4 ? (what + 1U) / 2 : what;
            advance(what);
            take(bytes);
            rest = rest.subspan(std::min<std::size_t>(rest.size(), bytes % 2));
        }
    }
}

}  // namespace

void check_bmp(Bytes bmp) {
    constexpr std::size_t kLeast = 26;
    if (bmp.size() < kLeast) {
        return;  // FFmpeg reports it.
    }
    const Header header = read_header(bmp);
    check_colors(header);
    check_masks(bmp, header);
    if (header.compression == kRuns8 || header.compression == kRuns4) {
        if (header.pixels_at % 2 != 0) {
            fail("its run lengths begin at an odd byte, from which not all readers count");
        }
        check_runs(bmp, header);
    } else if (!is_complete(bmp, header)) {
        throw MediaError("the BMP is truncated: its " + std::to_string(bmp.size()) +
                         " bytes end before its picture does");
    }
}

}  // namespace spdl
