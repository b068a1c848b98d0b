#include "image/webp/webp_decoder.h"

#include <webp/decode.h>

#include <string>

#include "core/media_error.h"

namespace spdl {
namespace {

std::string reason(VP8StatusCode status) {
    switch (status) {
        case VP8_STATUS_NOT_ENOUGH_DATA:
            return "the data is truncated";
        case VP8_STATUS_OUT_OF_MEMORY:
            return "there is no memory for it";
        case VP8_STATUS_UNSUPPORTED_FEATURE:
            return "it uses a feature that libwebp does not know";
        default:
            return "the data is damaged";
    }
}

void check(VP8StatusCode status) {
    if (status != VP8_STATUS_OK) {
        throw MediaError("cannot decode the WebP: " + reason(status));
    }
}

}  // namespace

PackedShape WebpDecoder::describe(Bytes bytes, std::int64_t /*max_pixels*/) {
    WebPBitstreamFeatures features;
    check(WebPGetFeatures(bytes.data(), bytes.size(), &features));
    bytes_ = bytes;
    return {{features.width, features.height}, {features.has_alpha != 0 ? 4 : 3, 1}, "webp"};
}

void WebpDecoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
    WebPDecoderConfig config;
    WebPInitDecoderConfig(&config);
    config.output.colorspace = region.format.has_alpha() ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = to;
    config.output.u.RGBA.stride = static_cast<int>(row_bytes);
    config.output.u.RGBA.size = row_bytes * static_cast<std::size_t>(region.box.size().height);
    check(WebPDecode(bytes_.data(), bytes_.size(), &config));
}

}  // namespace spdl
