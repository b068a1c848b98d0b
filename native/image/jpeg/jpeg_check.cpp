#include "image/jpeg/jpeg_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "core/media_error.h"
#include "image/jpeg/jpeg_decoder.h"

namespace spdl {
namespace {

// Takes rows that nobody wants.
class NoRows final : public RowSink {
  public:
    explicit NoRows(int width) : row_(3 * static_cast<std::size_t>(width)) {}

    std::uint8_t* row(int /*y*/) noexcept override { return row_.data(); }
    void commit(int /*y*/, int /*count*/) noexcept override {}

  private:
    std::vector<std::uint8_t> row_;
};

// Returns whether the image is of a kind that libjpeg-turbo decodes in every version: of 8 bits, with a loss, and no
// JPEG-LS. The first frame header tells; anything else about the file is left to libjpeg-turbo.
bool is_common(Bytes jpeg) {
    std::size_t at = 2;
    while (at + 5 <= jpeg.size() && jpeg[at] == 0xff) {
        const std::uint8_t marker = jpeg[at + 1];
        if (marker == 0xff) {  // A fill byte.
            ++at;
            continue;
        }
        const bool table = marker == 0xc4 || marker == 0xcc;
        if (marker >= 0xc0 && marker <= 0xcf && !table) {
            const bool lossy = marker <= 0xc2 || marker == 0xc9 || marker == 0xca;
            return lossy && jpeg[at + 4] == 8;
        }
        if (marker == 0xf7) {  // The frame of a JPEG-LS.
            return false;
        }
        at += 2 + (std::size_t{jpeg[at + 2]} << 8U | jpeg[at + 3]);
    }
    return true;
}

// Returns the next marker of the data, which then begin behind it; nothing if there is none.
std::optional<std::uint8_t> next_marker(Bytes& data) {
    const auto is_fill = [](std::uint8_t byte) { return byte == 0xff; };
    while (!data.empty()) {
        const void* const found = std::memchr(data.data(), 0xff, data.size());
        if (found == nullptr) {
            break;
        }
        data = Bytes(static_cast<const std::uint8_t*>(found), data.data() + data.size());
        const auto marker = std::ranges::find_if_not(data, is_fill);
        if (marker == data.end()) {
            break;
        }
        data = Bytes(marker + 1, data.end());
        if (*marker != 0) {  // Behind a zero, the pixels go on.
            return *marker;
        }
    }
    return std::nullopt;
}

// Texts and tables may.
bool may_follow_pixels(std::uint8_t marker) {
    switch (marker) {
        case 0xc4:
        case 0xcc:
        case 0xdb:
        case 0xdc:
        case 0xdd:
        case 0xfe:
            return true;
        default:
            return marker >= 0xe0 && marker <= 0xef;
    }
}

// Checks that all pixels of a scan can be there: that the image ends behind it and not before. FFmpeg itself notices
// that a scan is too short.
void check_scan(Bytes data) {
    for (;;) {
        const std::optional<std::uint8_t> marker = next_marker(data);
        if (marker == 0xd9) {
            return;
        }
        if (marker && !may_follow_pixels(*marker)) {
            char message[128];
            std::snprintf(message, sizeof(message),
                          "cannot decode the JPEG: the data is damaged: it has a marker 0x%02x among its pixels",
                          *marker);
            throw MediaError(message);
        }
        const std::size_t length = data.size() < 2 ? 0 : std::size_t{data[0]} << 8U | data[1];
        if (length < 2 || length > data.size()) {
            throw MediaError("cannot decode the JPEG: the data is truncated: it ends before the image does");
        }
        data = data.subspan(length);
    }
}

}  // namespace

void check_jpeg(Bytes bytes, std::int64_t max_pixels) {
    constexpr std::array<std::uint8_t, 2> kStart{0xff, 0xd8};
    if (bytes.size() < kStart.size() || bytes[0] != kStart[0] || bytes[1] != kStart[1]) {
        return;
    }
    if (!is_jpeg(bytes)) {
        throw MediaError("cannot decode the JPEG: the data is damaged: no marker follows its start");
    }
    if (!is_common(bytes)) {
        return;
    }
    // An eighth of the size and gray, since the pixels do not matter.
    constexpr int kEighths = 1;
    JpegDecoder decoder;
    decoder.read_header(bytes, {max_pixels, false});
    const Size size = decoder.scaled_size(kEighths);
    NoRows rows(decoder.begin(kEighths, whole(size), Channels::kGray).size().width);
    if (const std::optional<Bytes> scan = decoder.only_scan()) {
        check_scan(*scan);
        return;
    }
    decoder.decode(rows);
    if (decoder.lost()) {
        throw MediaError("cannot decode the JPEG: the data is damaged: its pixels are not where they should be");
    }
}

}  // namespace spdl
