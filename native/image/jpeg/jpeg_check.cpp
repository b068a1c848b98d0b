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
#include "image/jpeg/jpeg_frame.h"

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
    if (!jpeg_frame(bytes).common()) {
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
