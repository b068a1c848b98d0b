#include "ffmpeg/item_picture.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "core/bounded_read.h"
#include "core/image_items.h"
#include "core/media_error.h"
#include "core/quoted.h"

namespace spdl {
namespace {

// The items that are a single encoded picture.
constexpr std::string_view kEncoded[] = {"av01", "hvc1", "hev1", "avc1", "jpeg", "j2k1"};

std::optional<SampleColors> colors_of(const FileBox& property) {
    constexpr std::string_view kKind = "nclx";
    constexpr std::size_t kSize = 11;
    if (property.name != "colr" || property.content.size() < kSize ||
        !std::equal(kKind.begin(), kKind.end(), property.content.begin())) {
        return std::nullopt;
    }
    const std::uint32_t matrix = read_integer(property.content, 8, 2, false);
    const bool full = (property.content[kSize - 1] & 0x80U) != 0;
    return SampleColors{matrix < AVCOL_SPC_NB ? static_cast<AVColorSpace>(matrix) : AVCOL_SPC_UNSPECIFIED,
                        full ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG};
}

std::string sides(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

}  // namespace

ItemPicture describe_item_picture(Bytes file) {
    const PrimaryItem item = primary_item(file);
    if (item.type == "grid") {
        throw MediaError(
            "cannot read the image: its picture is a grid of tiles, which are not put together here; save it as one "
            "picture, for example as a JPEG, or without tiles");
    }
    if (!item.type.empty() && std::ranges::find(kEncoded, item.type) == std::end(kEncoded)) {
        throw MediaError("cannot read the image: its picture is made of others in a way, " + quoted(item.type, true) +
                         ", that is not read");
    }
    ItemPicture said;
    for (const FileBox& property : item.properties) {
        if (const auto colors = colors_of(property); colors && !said.colors) {
            said.colors = colors;
        }
        if (property.name == "ispe") {
            const auto side = [&](std::size_t at) {
                return static_cast<int>(read_integer(property.content, at, 4, false) & 0x7fffffffU);
            };
            said.size = {side(4), side(8)};
        }
    }
    return said;
}

void apply_description(const ItemPicture& said, AVFrame& frame) {
    if (said.size != Size() && said.size != Size{frame.width, frame.height}) {
        throw MediaError("cannot decode the image: its file says that it has " + sides(said.size) +
                         " pixels, and the picture found in it has " + sides({frame.width, frame.height}));
    }
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (!said.colors || format == nullptr || (format->flags & AV_PIX_FMT_FLAG_RGB) != 0) {
        return;
    }
    frame.color_range = said.colors->range;
    if (const AVColorSpace matrix = said.colors->matrix; matrix != AVCOL_SPC_UNSPECIFIED && matrix != AVCOL_SPC_RGB) {
        frame.colorspace = matrix;
    }
}

}  // namespace spdl
