#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/file_parts.h"
#include "gpu/image_batch.h"

namespace spdl {
namespace {

// The engines of some chips take no longer sides.
constexpr int kLongestSide = 16384;

struct Component {
    std::uint8_t name = 0;
    int across = 0;
    int down = 0;
};

// The content of the segments before the pixels.
struct Header {
    JpegPlanesShape shape;
    std::size_t components = 0;
    std::array<Component, 3> component;
    bool has_frame = false;
    bool has_quantisation = false;
    bool has_codes = false;
    bool restarts = false;
    bool jfif = false;
    std::optional<int> adobe_transform;
};

bool read_frame(Bytes segment, Header& header) {
    constexpr std::size_t kFixed = 6;
    constexpr std::size_t kEach = 3;
    if (header.has_frame || segment.size() < kFixed || segment[0] != 8) {
        return false;
    }
    header.has_frame = true;
    header.shape.size = {segment[3] << 8 | segment[4], segment[1] << 8 | segment[2]};
    header.components = segment[5];
    if ((header.components != 1 && header.components != 3) || segment.size() != kFixed + kEach * header.components) {
        return false;
    }
    for (std::size_t i = 0; i < header.components; ++i) {
        const std::size_t at = kFixed + kEach * i;
        header.component[i] = {segment[at], segment[at + 1] >> 4, segment[at + 1] & 15};
    }
    const Size size = header.shape.size;
    return size.width > 0 && size.height > 0 && size.width <= kLongestSide && size.height <= kLongestSide;
}

// Returns whether three components are luma and chroma, by libjpeg's rule.
bool is_ycc(const Header& header) {
    if (header.jfif) {
        return true;
    }
    if (header.adobe_transform) {
        return *header.adobe_transform == 1;
    }
    return !(header.component[0].name == 'R' && header.component[1].name == 'G' && header.component[2].name == 'B');
}

// Works out how chroma lies. Returns false for a way that is not known.
bool find_grid(Header& header) {
    if (header.components == 1) {
        return true;
    }
    const auto& [luma, blue, red] = header.component;
    const bool alike = blue.across == red.across && blue.down == red.down && blue.across > 0 && blue.down > 0;
    if (!is_ycc(header) || !alike || luma.across % blue.across != 0 || luma.down % blue.down != 0) {
        return false;
    }
    header.shape.chroma = true;
    header.shape.grid = {luma.across / blue.across, luma.down / blue.down};
    const Size grid = header.shape.grid;
    return (grid.width == 1 || grid.width == 2) && (grid.height == 1 || grid.height == 2);
}

// Returns whether the pixels are one scan of all components, which begins here.
bool is_only_scan(Bytes segment, const Header& header) {
    constexpr std::size_t kFixed = 4;
    if (segment.size() != kFixed + 2 * header.components || segment[0] != header.components) {
        return false;
    }
    const Bytes end = segment.last(3);
    return end[0] == 0 && end[1] == 63 && end[2] == 0;
}

// Returns whether nothing but restarts in their order lies among the pixels, and the end after them.
bool is_whole(Bytes data, bool restarts) {
    int next = 0;
    for (;;) {
        const void* const found = data.empty() ? nullptr : std::memchr(data.data(), 0xff, data.size());
        if (found == nullptr) {
            return false;
        }
        data = Bytes(static_cast<const std::uint8_t*>(found) + 1, data.data() + data.size());
        if (data.empty()) {
            return false;
        }
        const std::uint8_t marker = data[0];
        if (marker == 0xd9) {
            return true;
        }
        if (restarts && marker == 0xd0 + next) {
            next = (next + 1) % 8;
        } else if (marker != 0) {
            return false;
        }
        data = data.subspan(1);
    }
}

// Takes a segment; returns false if the image is not one for the GPU.
bool take(std::uint8_t marker, Bytes segment, Header& header) {
    switch (marker) {
        case 0xc0:  // Baseline.
        case 0xc1:  // Extended, of which 8 bits are the same.
            return read_frame(segment, header);
        case 0xc4:
            header.has_codes = true;
            return true;
        case 0xdb:
            header.has_quantisation = true;
            return true;
        case 0xdd:
            if (segment.size() == 2) {
                header.restarts = (segment[0] | segment[1]) != 0;
            }
            return segment.size() == 2;
        case 0xe0:
            header.jfif = header.jfif || starts_with(segment, std::string_view("JFIF\0", 5));
            return true;
        case 0xee:
            if (segment.size() >= 12 && starts_with(segment, "Adobe")) {
                header.adobe_transform = segment[11];
            }
            return true;
        case 0xfe:
            return true;
        default:
            return marker > 0xe0 && marker <= 0xef;
    }
}

}  // namespace

std::optional<JpegPlanesShape> planes_for_gpu(Bytes jpeg) {
    if (jpeg.size() < 4 || jpeg[0] != 0xff || jpeg[1] != 0xd8) {
        return std::nullopt;
    }
    Header header;
    JpegSegments segments(jpeg);
    while (const auto segment = segments.next()) {
        if (segment->marker == 0xda) {
            const bool known = header.has_frame && header.has_quantisation && header.has_codes && find_grid(header) &&
                               is_only_scan(segment->content, header) && is_whole(segments.rest(), header.restarts);
            return known ? std::optional(header.shape) : std::nullopt;
        }
        if (!take(segment->marker, segment->content, header)) {
            return std::nullopt;
        }
    }
    return std::nullopt;
}

}  // namespace spdl
