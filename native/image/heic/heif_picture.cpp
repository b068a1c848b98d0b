#include "image/heic/heif_picture.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "core/bounded_read.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "core/quoted.h"
#include "image/heic/property_check.h"

namespace spdl {
namespace {

using namespace std::string_view_literals;

[[noreturn]] void fail(const std::string& why) {
    throw MediaError("cannot read the HEIF: " + why);
}

std::string sides(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

// What may be in a picture beside HEVC.
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

Size said_size(std::span<const ItemProperty> properties) {
    const Bytes ispe = find_property(properties, "ispe");
    const auto side = [&](std::size_t at) {
        const std::uint32_t value = read_integer(ispe, at, 4, false);
        return static_cast<int>(std::min<std::uint32_t>(value, 0x7fffffffU));
    };
    return {side(4), side(8)};
}

// Reads what hvcC says of the samples.
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
    // What is coded may be larger than what is shown, by parts of blocks. The size that is shown is checked where
    // those of all formats are.
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
            fail("its picture is said to have " + sides(said) + " pixels, but is made of " + sides(size));
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
            fail("its picture is said to have " + sides(size) + " pixels, and its tiles have " + sides(all));
        }
        const Size shift = found.layout.chroma_shift;
        if ((columns > 1 && found.tile.width % (1 << shift.width) != 0) ||
            (rows > 1 && found.tile.height % (1 << shift.height) != 0)) {
            fail("its tiles of " + sides(found.tile) + " pixels share samples of chroma");
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

}  // namespace

Bytes find_property(std::span<const ItemProperty> properties, std::string_view name) {
    for (const ItemProperty& property : properties) {
        if (property.box.name == name) {
            return property.box.content;
        }
    }
    return {};
}

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

}  // namespace spdl
