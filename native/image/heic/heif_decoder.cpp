#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "image/heic/heif.h"

namespace spdl {
namespace {

// The longest chain of items that are made from each other.
constexpr std::size_t kMostNested = 8;

// The shown part of an item's stored picture, and its rotation.
struct ItemView {
    Box part;
    Orientation orientation;
};

// A picture that is made of tiles of one size, row by row; often of one.
struct TiledPicture {
    std::vector<std::uint32_t> tiles;
    int columns = 1;
    Size tile;
    SampleLayout layout;
    std::optional<SampleColors> colors;  // As the file says.
    ItemView view;                       // Its part is one of all tiles together.
};

struct HeifPicture {
    TiledPicture image;
    std::optional<TiledPicture> alpha;
    bool premultiplied = false;
};

// Decodes HEIF, whose pictures in HEVC are decoded by another.
class HeifDecoder final : public PackedDecoder {
  public:
    explicit HeifDecoder(std::unique_ptr<PictureDecoder> pictures) : pictures_(std::move(pictures)) {}

  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kHeif; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    // Rows of packed pixels, which begin `row_bytes` apart.
    struct Rows {
        std::uint8_t* begin;
        std::size_t row_bytes;
    };

    // Decodes the tiles that have pixels in a part of a picture. Alpha has no colours.
    void decode_tiles(const TiledPicture& picture, const Box& part, bool is_alpha, const PackedFormat& format,
                      const Rows& to);
    CodedPicture decode_tile(const TiledPicture& picture, std::size_t index);
    void add_alpha(const PackedRegion& region, const Rows& to);

    std::unique_ptr<PictureDecoder> pictures_;
    std::optional<ImageItems> items_;
    HeifPicture picture_;
};

// The properties that begin with a version; only one exists.
constexpr std::string_view kVersioned[] = {"ispe", "pixi", "auxC"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

bool is_clap(Bytes content) {
    constexpr std::size_t kSize = 32;
    constexpr std::size_t kFraction = 8;
    for (std::size_t at = 4; at < kSize; at += kFraction) {
        if (read_integer(content, at, 4, false) == 0) {
            return false;
        }
    }
    return true;
}

// The numbers that ITU-T H.273 gives a meaning: primaries and transfer characteristics.
bool is_nclx(Bytes content) {
    const auto read = [&](std::size_t at) { return read_integer(content, at, 2, false); };
    const std::uint32_t primaries = read(4);
    const std::uint32_t transfer = read(6);
    constexpr std::uint32_t kMostTransfers = 18;
    return content.size() >= 11 && ((primaries > 0 && primaries <= 12 && primaries != 3) || primaries == 22) &&
           transfer > 0 && transfer <= kMostTransfers && transfer != 3;
}

bool is_color(Bytes content) {
    return starts_with(content, "nclx")
               ? is_nclx(content)
               : starts_with(content, "prof") || starts_with(content, "rICC") || starts_with(content, "nclc");
}

// Returns how a picture is stored that is turned in one way and then in another.
Orientation joined(const Orientation& first, const Orientation& then) {
    bool mirrored_x = then.mirrored_x;
    bool mirrored_y = then.mirrored_y;
    if (first.transposed) {
        std::swap(mirrored_x, mirrored_y);
    }
    return {first.transposed != then.transposed, first.mirrored_x != mirrored_x, first.mirrored_y != mirrored_y};
}

// Returns the turn or the mirror that a property is.
Orientation turn_of(const FileBox& box) {
    const unsigned value = read_integer(box.content, 0, 1, false);
    if (box.name == "irot") {
        constexpr int kQuarter = 90;
        return turned_by(static_cast<int>((4 - (value & 3U)) % 4) * kQuarter);
    }
    const bool left_to_right = (value & 1U) != 0;
    return {false, left_to_right, !left_to_right};
}

// The start and end of the clean aperture of a side.
struct Extent {
    int begin;
    int end;
};

Extent clean(Bytes clap, std::size_t at, int side) {
    const auto read = [&](std::size_t offset) { return read_integer(clap, offset, 4, false); };
    const double length = static_cast<double>(static_cast<std::int32_t>(read(at))) / read(at + 4);
    const double offset = static_cast<double>(static_cast<std::int32_t>(read(at + 16))) / read(at + 20);
    const double begin = std::floor(offset + (side - length) / 2 + 0.5);
    const double end = begin + std::floor(length + 0.5);
    if (!(begin < side && end > 0 && end > begin)) {  // Nor is it a number if a denominator is 0.
        throw MediaError("cannot read the HEIF: its clean aperture shows nothing of the picture");
    }
    return {static_cast<int>(std::max(begin, 0.0)), static_cast<int>(std::min(end, static_cast<double>(side)))};
}

Box clean_aperture(Bytes clap, Size size) {
    const Extent across = clean(clap, 0, size.width);
    const Extent down = clean(clap, 8, size.height);
    return {across.begin, down.begin, across.end, down.end};
}

// Returns the view of a picture after the turns, mirrors and crops of an item, in their order. Throws MediaError if a
// crop leaves nothing.
ItemView apply_view(ItemView view, std::span<const ItemProperty> properties) {
    for (const ItemProperty& property : properties) {
        const FileBox& box = property.box;
        if (box.name == "irot" || box.name == "imir") {
            view.orientation = joined(view.orientation, turn_of(box));
        } else if (box.name == "clap") {
            const Size stored = view.part.size();
            const Box upright = clean_aperture(box.content, view.orientation.upright_size(stored));
            const Box kept = view.orientation.stored_box(upright, stored);
            view.part = moved(kept, view.part.left, view.part.top);
        }
    }
    return view;
}

using namespace std::string_view_literals;

[[noreturn]] void fail(const std::string& why) {
    throw MediaError("cannot read the HEIF: " + why);
}

// The other codings that a picture may have.
struct OtherCoding {
    std::string_view type;
    std::string_view name;
};

constexpr OtherCoding kOthers[] = {
    {"av01", "AV1, for which the file lacks the brand of AVIF"},
    {"avc1", "H.264"},
    {"jpeg", "JPEG"},
    {"j2k1", "JPEG 2000"},
    {"vvc1", "VVC"},
    {"evc1", "EVC"},
    {"lhv1", "HEVC of several layers"},
    {"unci", "uncompressed samples"},
    {"mski", "a mask"},
    {"iovl", "several pictures that lie upon each other"},
    {"tmap", "several pictures for a tone map"},
};

[[noreturn]] void refuse(std::string_view type) {
    if (type.empty()) {
        fail("its picture is not in its list of items; the data may be damaged");
    }
    const auto* const other = std::ranges::find(kOthers, type, &OtherCoding::type);
    fail("its picture is made of " +
         (other == std::end(kOthers) ? "items of the type " + quoted(type, true) : std::string(other->name)) +
         ", which is not read here; convert it, for example to a JPEG");
}

// The properties that are followed, or change no pixel.
constexpr std::string_view kKnown[] = {"hvcC", "ispe", "colr", "pixi", "clap", "irot", "imir", "auxC", "pasp"};

void check_essential(std::span<const ItemProperty> properties) {
    for (const ItemProperty& property : properties) {
        if (property.essential && std::ranges::find(kKnown, property.box.name) == std::end(kKnown)) {
            fail("its picture has an essential property " + quoted(property.box.name, true) + ", which is not known");
        }
    }
}

// Returns the content of a property of an item; empty if none exists of that name.
Bytes find_property(std::span<const ItemProperty> properties, std::string_view name) {
    for (const ItemProperty& property : properties) {
        if (property.box.name == name) {
            return property.box.content;
        }
    }
    return {};
}

Size said_size(std::span<const ItemProperty> properties) {
    const Bytes ispe = find_property(properties, "ispe");
    const auto side = [&](std::size_t at) {
        const std::uint32_t value = read_integer(ispe, at, 4, false);
        return static_cast<int>(std::min<std::uint32_t>(value, 0x7fffffffU));
    };
    return {side(4), side(8)};
}

// Reads the sample layout in hvcC.
SampleLayout layout_of(Bytes config) {
    constexpr std::size_t kHeader = 23;
    if (config.size() < kHeader || config.size() > kMaxMetadata) {
        fail("the header of an item's HEVC is missing or damaged");
    }
    const unsigned chroma = config[16] & 3U;
    const int depth = static_cast<int>(config[17] & 7U) + 8;
    if (chroma != 0 && depth != static_cast<int>(config[18] & 7U) + 8) {
        fail("its chroma has another depth than its luma");
    }
    constexpr Size kShifts[] = {{}, {1, 1}, {1, 0}, {}};
    return {depth, chroma == 0, kShifts[chroma]};
}

class Finder {
  public:
    // The coded picture may be larger than the shown one, by parts of blocks. The shown size is checked as in all
    // formats.
    Finder(const ImageItems& items, std::int64_t max_pixels)
        : items_(items), max_pixels_(max_pixels + std::min(kPadding, kAny - max_pixels)) {}

    TiledPicture find(std::uint32_t item, std::size_t depth = 0) const {
        if (depth > kMostNested) {
            fail("its picture is made of others that are made of others, and so on");
        }
        if (items_.encrypted(item)) {
            fail("its picture is encrypted");
        }
        const std::vector<ItemProperty> properties = items_.properties(item);
        check_essential(properties);
        const std::string_view type = items_.type(item);
        TiledPicture found;
        if (type == "hvc1" || type == "hev1") {
            found = coded(item, properties);
        } else if (type == "grid") {
            found = grid(item, depth);
        } else if (type == "iden") {
            found = find(single_source(item), depth + 1);
        } else {
            refuse(type);
        }
        check_said(properties, found);
        SampleColors colors;
        if (find_colors(properties, colors)) {
            found.colors = colors;
        }
        found.view = apply_view(found.view, properties);
        return found;
    }

  private:
    static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int64_t kPadding = std::int64_t{2} * 64 * kMaxSide;  // HEVC's largest blocks have 64x64.

    void check(Size size) const { check_source_size(size, "cannot read the HEIF: the size of an item", max_pixels_); }

    static void check_said(std::span<const ItemProperty> properties, const TiledPicture& found) {
        const Size said = said_size(properties);
        const Size size = found.view.orientation.upright_size(found.view.part.size());
        if (said != Size() && said != size) {
            fail("its picture is said to have " + dimensions(said) + " pixels, but is made of " + dimensions(size));
        }
    }

    TiledPicture coded(std::uint32_t item, std::span<const ItemProperty> properties) const {
        const Size size = said_size(properties);
        check(size);
        return {{item}, 1, size, layout_of(find_property(properties, "hvcC")), {}, {whole(size), {}}};
    }

    std::uint32_t single_source(std::uint32_t item) const {
        const std::vector<std::uint32_t> sources = items_.referred("dimg", item);
        if (sources.size() != 1) {
            fail("its picture is made of " + std::to_string(sources.size()) + " others instead of one");
        }
        return sources[0];
    }

    TiledPicture grid(std::uint32_t item, std::size_t depth) const {
        const std::vector<Bytes> content = items_.content(item);
        const Bytes bytes = content.size() == 1 ? content[0] : Bytes();
        const bool wide = (read_integer(bytes, 1, 1, false) & 1U) != 0;
        if (bytes.size() < (wide ? 12U : 8U) || bytes[0] != 0) {
            fail("the header of its tiles is damaged");
        }
        const int rows = bytes[2] + 1;
        const int columns = bytes[3] + 1;
        const std::size_t side = wide ? 4 : 2;
        const auto read = [&](std::size_t at) {
            return static_cast<int>(std::min<std::uint32_t>(read_integer(bytes, at, side, false), 0x7fffffffU));
        };
        const Size size{read(4), read(4 + side)};
        check(size);
        std::vector<std::uint32_t> tiles = items_.referred("dimg", item);
        if (tiles.size() != static_cast<std::size_t>(rows * columns)) {
            fail("its picture is said to have " + std::to_string(columns) + "x" + std::to_string(rows) +
                 " tiles, and refers to " + std::to_string(tiles.size()));
        }
        TiledPicture found = tile(tiles[0], depth);
        const Size all{found.tile.width * columns, found.tile.height * rows};
        if (size.width > all.width || size.height > all.height) {
            fail("its picture is said to have " + dimensions(size) + " pixels, and its tiles have " + dimensions(all));
        }
        const Size shift = found.layout.chroma_shift;
        if ((columns > 1 && found.tile.width % (1 << shift.width) != 0) ||
            (rows > 1 && found.tile.height % (1 << shift.height) != 0)) {
            fail("its tiles of " + dimensions(found.tile) + " pixels share samples of chroma");
        }
        std::size_t data = 0;
        for (const std::uint32_t other : tiles) {
            for (const Bytes piece : items_.content(other)) {
                data += piece.size();
            }
            // Each could name the same item, which would be decoded again and again.
            if (data > 2 * items_.file_bytes()) {
                fail("its tiles have more data than there are in the file");
            }
            const TiledPicture same = tile(other, depth);
            if (same.tile != found.tile || same.layout != found.layout) {
                fail("its tiles differ in their size or in their samples");
            }
        }
        found.tiles = std::move(tiles);
        found.columns = columns;
        found.view.part = whole(size);
        return found;
    }

    TiledPicture tile(std::uint32_t item, std::size_t depth) const {
        if (const std::string_view type = items_.type(item); type != "hvc1" && type != "hev1") {
            refuse(type);
        }
        TiledPicture found = find(item, depth + 1);
        if (found.view.part != whole(found.tile) || !found.view.orientation.upright()) {
            fail("its tiles are cropped or turned, which is not read");
        }
        return found;
    }

    const ImageItems& items_;
    std::int64_t max_pixels_;  // Of what is coded.
};

bool is_alpha(const ImageItems& items, std::uint32_t item) {
    const std::vector<ItemProperty> properties = items.properties(item);
    BoxReader reader(find_property(properties, "auxC"));
    reader.skip(4);
    const std::string_view kind = reader.take_text();
    return kind == "urn:mpeg:hevc:2015:auxid:1"sv || kind == "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"sv;
}

std::optional<std::uint32_t> alpha_of(const ImageItems& items, std::uint32_t item) {
    for (const std::uint32_t other : items.referring("auxl", item)) {
        if (is_alpha(items, other)) {
            return other;
        }
    }
    return std::nullopt;
}

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

// Throws MediaError if what a file says about its items cannot be so: damage is found there before it shows.
void check_properties(std::span<const FileBox> properties) {
    for (const auto& [name, content] : properties) {
        if ((is_one_of(name, kVersioned) && (content.size() < 4 || content[0] != 0)) ||
            (name == "clap" && !is_clap(content)) || (name == "colr" && !is_color(content))) {
            throw MediaError("cannot read the HEIF: its property " + quoted(name, true) +
                             " is damaged, or of a kind that is not known");
        }
    }
}

// Finds the picture of a file and what it is made of. Throws MediaError if it is damaged, made in a way that is not
// read, or of parts that are too large for a picture of `max_pixels`.
HeifPicture find_heif_picture(const ImageItems& items, std::int64_t max_pixels) {
    check_properties(items.properties());
    const Finder finder(items, max_pixels);
    const std::uint32_t primary = items.primary();
    HeifPicture found{finder.find(primary), {}, false};
    const std::optional<std::uint32_t> alpha = alpha_of(items, primary);
    if (!alpha) {
        if (found.image.tiles[0] != primary && alpha_of(items, found.image.tiles[0])) {
            fail("the items that its picture is made of have their own alpha, which is not read");
        }
        return found;
    }
    found.alpha = finder.find(*alpha);
    if (found.alpha->view.orientation != found.image.view.orientation) {
        fail("its alpha is turned in another way than its picture");
    }
    const std::vector<std::uint32_t> premultiplied = items.referred("prem", primary);
    found.premultiplied = std::ranges::find(premultiplied, *alpha) != premultiplied.end();
    return found;
}

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
        const Box here = common(wanted, moved(whole(picture.tile), left, top));
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

}  // namespace

Orientation heif_orientation(Bytes heif) {
    const ImageItems items(heif);
    std::vector<std::uint32_t> chain{items.primary()};
    while (items.type(chain.back()) == "iden" && chain.size() <= kMostNested) {
        const std::vector<std::uint32_t> sources = items.referred("dimg", chain.back());
        if (sources.empty()) {
            break;
        }
        chain.push_back(sources[0]);
    }
    Orientation orientation;
    for (auto item = chain.rbegin(); item != chain.rend(); ++item) {
        for (const ItemProperty& property : items.properties(*item)) {
            if (property.box.name == "irot" || property.box.name == "imir") {
                orientation = joined(orientation, turn_of(property.box));
            }
        }
    }
    return orientation;
}

std::unique_ptr<Decoder> make_heif_decoder(std::unique_ptr<PictureDecoder> pictures) {
    return std::make_unique<HeifDecoder>(std::move(pictures));
}

}  // namespace spdl
