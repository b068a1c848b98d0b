#include "image/heic/heif_decoder.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/aligned_buffer.h"
#include "core/bounded_read.h"
#include "core/media_error.h"
#include "image/heic/alpha_rows.h"
#include "image/heic/yuv_rows.h"

namespace spdl {
namespace {

void check_items(const ImageItems& items, Bytes bytes) {
    if (items.any()) {
        constexpr std::size_t kKind = 8;
        const Bytes handler = items.handler();
        if (!items.whole() || handler.empty() || handler[0] != 0 || !starts_with(tail(handler, kKind), "pict")) {
            throw MediaError("cannot read the HEIF: the list of its items is damaged");
        }
        return;
    }
    if (!find_box(bytes, "moov").empty()) {
        throw MediaError(
            "cannot read the HEIF: it is a sequence of pictures without a single one; read it as a video, for example "
            "by load_video");
    }
    throw MediaError("cannot read the HEIF: there is no list of its items; the data may be truncated");
}

int clamped(int value, int least, int most) {
    return std::min(std::max(value, least), most);
}

Box shared(const Box& one, const Box& other) {
    return {clamped(one.left, other.left, other.right), clamped(one.top, other.top, other.bottom),
            clamped(one.right, other.left, other.right), clamped(one.bottom, other.top, other.bottom)};
}

Box moved(const Box& box, int right, int down) {
    return {box.left + right, box.top + down, box.right + right, box.bottom + down};
}

}  // namespace

PackedShape HeifDecoder::describe(Bytes bytes, std::int64_t max_pixels) {
    const ImageItems& items = items_.emplace(bytes);
    check_items(items, bytes);
    picture_ = find_heif_picture(items, max_pixels);
    const SampleLayout& layout = picture_.image.layout;
    const PackedFormat format{(layout.gray ? 1 : 3) + (picture_.alpha ? 1 : 0), layout.depth > 8 ? 2 : 1};
    return {picture_.image.view.part.size(), format, "hevc"};
}

Box HeifDecoder::decodable(int /*eighths*/, const Box& wanted) const {
    return wanted;
}

void HeifDecoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
    decode_tiles(picture_.image, region.box, false, region.format, {to, row_bytes});
    if (region.format.has_alpha()) {
        add_alpha(region, {to, row_bytes});
    }
}

void HeifDecoder::decode_tiles(const TiledPicture& picture, const Box& part, bool is_alpha, const PackedFormat& format,
                               const Rows& to) {
    const Box wanted = moved(part, picture.view.part.left, picture.view.part.top);
    std::optional<YuvRows> rows;
    for (std::size_t index = 0; index < picture.tiles.size(); ++index) {
        const int column = static_cast<int>(index) % picture.columns;
        const int row = static_cast<int>(index) / picture.columns;
        const int left = column * picture.tile.width;
        const int top = row * picture.tile.height;
        const Box here = shared(wanted, moved(whole(picture.tile), left, top));
        if (here.size().width <= 0 || here.size().height <= 0) {
            continue;
        }
        const CodedPicture tile = decode_tile(picture, index);
        if (!rows) {
            SampleLayout layout = tile.layout;
            SampleColors colors = picture.colors.value_or(tile.colors);
            // Cameras are known that deny it in the file alone.
            colors.full_range = colors.full_range || tile.colors.full_range;
            if (is_alpha) {
                layout.gray = true;
                colors.full_range = true;
            }
            rows.emplace(layout, colors, format);
        }
        rows->convert(tile, moved(here, -left, -top),
                      to.begin + static_cast<std::size_t>(here.top - wanted.top) * to.row_bytes +
                          static_cast<std::size_t>(here.left - wanted.left) * format.pixel_bytes(),
                      to.row_bytes);
    }
}

CodedPicture HeifDecoder::decode_tile(const TiledPicture& picture, std::size_t index) {
    const std::uint32_t item = picture.tiles[index];
    const std::vector<Bytes> content = items_->content(item);
    if (content.empty()) {
        throw MediaError(
            "cannot decode the HEIF: the data of an item do not lie within the file, which may be truncated");
    }
    const CodedPicture tile = pictures_->decode(find_property(items_->properties(item), "hvcC"), content, picture.tile);
    if (tile.layout != picture.layout) {
        throw MediaError("cannot decode the HEIF: its picture has other samples than the file says");
    }
    return tile;
}

void HeifDecoder::add_alpha(const PackedRegion& region, const Rows& to) {
    const TiledPicture& alpha = *picture_.alpha;
    const Size size = alpha.view.part.size();
    const PackedFormat format{1, region.format.sample_bytes};
    const std::size_t row_bytes = static_cast<std::size_t>(size.width) * format.pixel_bytes();
    AlignedBuffer plane(row_bytes * static_cast<std::size_t>(size.height));
    decode_tiles(alpha, whole(size), true, format, {plane.data(), row_bytes});
    write_alpha({plane.data(), size, picture_.image.view.part.size()}, region.box, region.format, to.begin,
                to.row_bytes);
    if (picture_.premultiplied) {
        divide_by_alpha(region.box.size(), region.format, to.begin, to.row_bytes);
    }
}

void HeifDecoder::forget() noexcept {
    pictures_->forget();
    items_.reset();
    picture_ = {};
}

}  // namespace spdl
