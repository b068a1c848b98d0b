#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "core/errors.h"
#include "image/jpeg/jpeg.h"
#include "media/place.h"

namespace spdl {
namespace {

void on_error_exit(j_common_ptr codec) {
    JpegFailure& failure = JpegFailure::of(codec);
    failure.out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
    codec->err->format_message(codec, failure.message);
    longjmp(failure.on_error, JpegFailure::kFailed);
}

void on_message(j_common_ptr /*codec*/, int /*level*/) {}

void on_output(j_common_ptr /*codec*/) {}

constexpr std::uint8_t kJpegLs = 0xf7;
constexpr std::uint8_t kScan = 0xda;

// Returns whether the marker begins a frame header, not a table, and is not reserved.
bool begins_frame(std::uint8_t marker) noexcept {
    return (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) ||
           marker == kJpegLs;
}

// Returns whether no length follows the marker.
bool stands_alone(std::uint8_t marker) noexcept {
    return marker == 1 || (marker >= 0xd0 && marker <= 0xd7);
}

// Discards rows.
class NoRows final : public RowSink {
  public:
    explicit NoRows(int width) : row_(3 * static_cast<std::size_t>(width)) {}

    std::uint8_t* row(int /*y*/) noexcept override { return row_.data(); }
    void commit(int /*y*/, int /*count*/) noexcept override {}

  private:
    std::vector<std::uint8_t> row_;
};

// Returns the next marker of the data, which then begin after it; nothing if none exists.
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

// Checks that all pixels of a scan can be there: that the image ends after it and not before. FFmpeg itself notices
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

void JpegFailure::handle_errors_of(j_common_ptr codec) noexcept {
    codec->err = jpeg_std_error(&errors);
    codec->client_data = this;
    errors.error_exit = on_error_exit;
    errors.emit_message = on_message;
    errors.output_message = on_output;
}

void JpegFailure::raise(const std::string& what) const {
    if (out_of_memory) {
        throw std::bad_alloc();
    }
    throw MediaError(what + message);
}

Size chroma_grid(const jpeg_decompress_struct& codec) {
    if (codec.num_components != 3) {
        return {1, 1};
    }
    const auto share = [](int luma, int chroma) { return std::max(luma / std::max(chroma, 1), 1); };
    return {share(codec.comp_info[0].h_samp_factor, codec.comp_info[1].h_samp_factor),
            share(codec.comp_info[0].v_samp_factor, codec.comp_info[1].v_samp_factor)};
}

const char* pixel_format(const jpeg_decompress_struct& codec) {
    if (codec.num_components == 1) {
        return "gray";
    }
    if (codec.num_components == 4) {
        return codec.jpeg_color_space == JCS_YCCK ? "yuva444p" : "gbrap";
    }
    if (codec.jpeg_color_space == JCS_RGB) {
        return "gbrp";
    }
    const auto [horizontal, vertical] = chroma_grid(codec);
    if (vertical == 1) {
        return horizontal == 1 ? "yuvj444p" : horizontal == 2 ? "yuvj422p" : "yuvj411p";
    }
    return horizontal == 1 ? "yuvj440p" : "yuvj420p";
}

bool has_planes(const jpeg_decompress_struct& codec) {
    if (codec.num_components != kPlanes || codec.jpeg_color_space != JCS_YCbCr || codec.data_precision != 8 ||
        (codec.progressive_mode == FALSE && codec.Se != DCTSIZE2 - 1)) {
        return false;
    }
    const jpeg_component_info& luma = codec.comp_info[kLuma];
    const jpeg_component_info& blue = codec.comp_info[kBlueChroma];
    const jpeg_component_info& red = codec.comp_info[kRedChroma];
    const auto once_or_twice = [](int of, int factor) { return of == factor || of == 2 * factor; };
    return blue.h_samp_factor == red.h_samp_factor && blue.v_samp_factor == red.v_samp_factor &&
           once_or_twice(luma.h_samp_factor, blue.h_samp_factor) &&
           once_or_twice(luma.v_samp_factor, blue.v_samp_factor);
}

JpegFrame jpeg_frame(Bytes jpeg) noexcept {
    std::size_t at = 2;
    while (at + 10 <= jpeg.size()) {
        const std::uint8_t marker = jpeg[at + 1];
        if (jpeg[at] != 0xff || marker == 0 || marker == 0xff) {
            ++at;  // As in libjpeg, what is not a marker does not count.
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
