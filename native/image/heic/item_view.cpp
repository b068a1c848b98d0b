#include "image/heic/item_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/bounded_read.h"
#include "core/media_error.h"

namespace spdl {
namespace {

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

// Where the clean aperture of a side begins and ends.
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

}  // namespace

ItemView apply_view(ItemView view, std::span<const ItemProperty> properties) {
    for (const ItemProperty& property : properties) {
        const FileBox& box = property.box;
        if (box.name == "irot" || box.name == "imir") {
            view.orientation = joined(view.orientation, turn_of(box));
        } else if (box.name == "clap") {
            const Size stored = view.part.size();
            const Box upright = clean_aperture(box.content, view.orientation.upright_size(stored));
            const Box kept = view.orientation.stored_box(upright, stored);
            view.part = {view.part.left + kept.left, view.part.top + kept.top, view.part.left + kept.right,
                         view.part.top + kept.bottom};
        }
    }
    return view;
}

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

}  // namespace spdl
