#include "core/image_items.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace spdl {
namespace {

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string_view BoxReader::take_text() {
    const std::string_view all = text(rest_);
    const std::string_view taken = all.substr(0, all.find('\0'));
    skip(taken.size() + 1);
    return taken;
}

std::optional<FileBox> take_box(Bytes& boxes) {
    BoxReader reader(boxes);
    std::uint64_t size = reader.take(4);
    std::size_t header = 8;
    if (boxes.size() < header) {
        return std::nullopt;
    }
    if (size == 1) {
        reader.skip(4);
        size = reader.take(8);
        header = 16;
    } else if (size == 0) {
        size = boxes.size();
    }
    if (size < header || size > boxes.size()) {
        return std::nullopt;
    }
    const FileBox box{text(boxes.subspan(4, 4)), boxes.subspan(header, static_cast<std::size_t>(size) - header)};
    boxes = boxes.subspan(static_cast<std::size_t>(size));
    return box;
}

Bytes find_box(Bytes boxes, std::string_view name) {
    while (const auto box = take_box(boxes)) {
        if (box->name == name) {
            return box->content;
        }
    }
    return {};
}

namespace {

constexpr std::uint64_t kMostExtents = 1024;

// Returns what the box `meta` of a file holds; empty if it is not a file of items.
Bytes meta_of(Bytes file) {
    Bytes boxes = file;
    const auto first = take_box(boxes);
    if (!first || first->name != "ftyp") {
        return {};
    }
    BoxReader reader(find_box(boxes, "meta"));
    reader.skip(4);
    return reader.rest();
}

std::uint32_t take_number(BoxReader& reader, bool wide) {
    return static_cast<std::uint32_t>(reader.take(wide ? 4 : 2));
}

}  // namespace

ImageItems::ImageItems(Bytes file) : file_(file) {
    const std::vector<FileBox> meta = boxes_in(meta_of(file));
    const auto find = [&](std::string_view name) {
        const auto found = std::ranges::find(meta, name, &FileBox::name);
        return found == meta.end() ? Bytes() : found->content;
    };
    handler_ = find("hdlr");
    held_ = find("idat");
    BoxReader primary(find("pitm"));
    const bool wide = primary.take(4) >> 24U != 0;
    primary_ = take_number(primary, wide);
    read_entries(find("iinf"));
    const std::vector<FileBox> properties = boxes_in(find("iprp"));
    for (const FileBox& box : properties) {
        if (box.name == "ipco") {
            properties_ = boxes_in(box.content);
            break;
        }
    }
    for (const FileBox& box : properties) {
        if (box.name == "ipma") {
            read_associations(box.content);
        }
    }
    read_references(find("iref"));
    read_places(find("iloc"));
}

std::vector<FileBox> ImageItems::boxes_in(Bytes bytes) {
    std::vector<FileBox> boxes;
    while (const auto box = take_box(bytes)) {
        boxes.push_back(*box);
    }
    whole_ = whole_ && bytes.empty();
    return boxes;
}

void ImageItems::read_entries(Bytes iinf) {
    BoxReader list(iinf);
    const bool wide = list.take(4) >> 24U != 0;
    list.skip(wide ? 4 : 2);  // How many there are.
    for (const FileBox& entry : boxes_in(list.rest())) {
        BoxReader reader(entry.content);
        const std::uint64_t version = reader.take(1);
        reader.skip(3);
        constexpr std::uint64_t kNewest = 3;
        whole_ = whole_ && entry.name == "infe" && version <= kNewest;
        if (entry.name != "infe" || version < 2) {  // Older versions have no type.
            continue;
        }
        const std::uint32_t number = take_number(reader, version > 2);
        Item item;
        item.encrypted = reader.take(2) != 0;
        if (reader.rest().size() >= 4) {
            item.type = text(reader.rest().first(4));
            reader.skip(4);
        }
        if (item.type == "mime") {
            reader.take_text();  // Its name.
            item.content_type = reader.take_text();
        }
        if (items_.emplace(number, std::move(item)).second) {
            numbers_.push_back(number);
        }
    }
}

void ImageItems::read_associations(Bytes ipma) {
    BoxReader reader(ipma);
    const bool wide_items = reader.take(1) != 0;
    const bool wide = (reader.take(3) & 1U) != 0;
    const std::uint64_t entries = reader.take(4);
    for (std::uint64_t i = 0; i < entries && !reader.rest().empty(); ++i) {
        const auto item = items_.find(take_number(reader, wide_items));
        // An item has one entry; more would only cost time.
        const bool wanted = item != items_.end() && item->second.associations.empty();
        const std::uint64_t count = reader.take(1);
        for (std::uint64_t k = 0; k < count; ++k) {
            const auto both = static_cast<std::uint32_t>(reader.take(wide ? 2 : 1));
            const std::uint32_t mark = wide ? 0x8000U : 0x80U;
            const std::uint32_t number = both & (mark - 1);
            whole_ = whole_ && number <= properties_.size();
            if (wanted && number > 0 && number <= properties_.size()) {
                item->second.associations.push_back({number - 1, (both & mark) != 0});
            }
        }
    }
}

void ImageItems::read_references(Bytes iref) {
    BoxReader list(iref);
    const bool wide = list.take(4) >> 24U != 0;
    for (const FileBox& box : boxes_in(list.rest())) {
        BoxReader reader(box.content);
        Reference reference{box.name, take_number(reader, wide), {}};
        const std::uint64_t count = reader.take(2);
        for (std::uint64_t i = 0; i < count && !reader.rest().empty(); ++i) {
            reference.to.push_back(take_number(reader, wide));
            whole_ = whole_ && items_.contains(reference.to.back());
        }
        whole_ = whole_ && reference.to.size() == count && items_.contains(reference.from);
        references_.push_back(std::move(reference));
    }
}

void ImageItems::read_places(Bytes iloc) {
    BoxReader reader(iloc);
    const std::uint64_t version = reader.take(1);
    reader.skip(3);
    const auto take_sizes = [&] {
        const std::uint64_t both = reader.take(1);
        return std::pair{static_cast<std::size_t>(both >> 4U), static_cast<std::size_t>(both & 0xfU)};
    };
    std::size_t base_size = 0;
    std::tie(offset_size_, length_size_) = take_sizes();
    std::tie(base_size, index_size_) = take_sizes();
    if (version == 0) {
        index_size_ = 0;
    }
    const std::uint64_t count = reader.take(version < 2 ? 2 : 4);
    for (std::uint64_t i = 0; i < count && !reader.rest().empty(); ++i) {
        const std::uint32_t item = take_number(reader, version >= 2);
        Place place{};
        place.method = version == 0 ? 0 : reader.take(2) & 0xfU;
        place.elsewhere = reader.take(2) != 0;
        place.base = reader.take(base_size);
        place.count = reader.take(2);
        place.extents = reader.rest();
        reader.skip(static_cast<std::size_t>(place.count) * (index_size_ + offset_size_ + length_size_));
        places_.emplace(item, place);
    }
}

const ImageItems::Item* ImageItems::find(std::uint32_t item) const {
    const auto found = items_.find(item);
    return found == items_.end() ? nullptr : &found->second;
}

std::string_view ImageItems::type(std::uint32_t item) const {
    const Item* const found = find(item);
    return found == nullptr ? std::string_view() : found->type;
}

std::string_view ImageItems::content_type(std::uint32_t item) const {
    const Item* const found = find(item);
    return found == nullptr ? std::string_view() : found->content_type;
}

bool ImageItems::encrypted(std::uint32_t item) const {
    const Item* const found = find(item);
    return found != nullptr && found->encrypted;
}

std::vector<ItemProperty> ImageItems::properties(std::uint32_t item) const {
    std::vector<ItemProperty> found;
    if (const Item* const entry = find(item)) {
        for (const Association& association : entry->associations) {
            found.push_back({properties_[association.property], association.essential});
        }
    }
    return found;
}

std::vector<std::uint32_t> ImageItems::referred(std::string_view kind, std::uint32_t from) const {
    for (const Reference& reference : references_) {
        if (reference.kind == kind && reference.from == from) {
            return reference.to;
        }
    }
    return {};
}

std::vector<std::uint32_t> ImageItems::referring(std::string_view kind, std::uint32_t to) const {
    std::vector<std::uint32_t> found;
    for (const Reference& reference : references_) {
        if (reference.kind == kind && std::ranges::find(reference.to, to) != reference.to.end()) {
            found.push_back(reference.from);
        }
    }
    return found;
}

std::vector<Bytes> ImageItems::content(std::uint32_t item) const {
    const auto found = places_.find(item);
    if (found == places_.end() || found->second.elsewhere || found->second.method > 1 ||
        found->second.count > kMostExtents) {
        return {};
    }
    const Place& place = found->second;
    const Bytes whole = place.method == 0 ? file_ : held_;
    std::vector<Bytes> pieces;
    BoxReader reader(place.extents);
    std::size_t left = file_.size();
    for (std::uint64_t i = 0; i < place.count; ++i) {
        if (reader.rest().size() < index_size_ + offset_size_ + length_size_) {
            return {};
        }
        reader.skip(index_size_);
        const std::uint64_t begin = place.base + reader.take(offset_size_);
        const std::uint64_t length = reader.take(length_size_);
        if (begin > whole.size() || length > whole.size() - begin || length > left) {
            return {};
        }
        left -= static_cast<std::size_t>(length);
        pieces.push_back(whole.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)));
    }
    return pieces;
}

PrimaryItem primary_item(Bytes file) {
    const ImageItems items(file);
    PrimaryItem found{items.type(items.primary()), {}};
    for (const ItemProperty& property : items.properties(items.primary())) {
        found.properties.push_back(property.box);
    }
    return found;
}

ItemMetadata primary_metadata(Bytes file) {
    const ImageItems items(file);
    constexpr std::size_t kPreceding = 4;
    ItemMetadata found;
    const std::vector<std::uint32_t> describing = items.referring("cdsc", items.primary());
    const std::unordered_set<std::uint32_t> wanted(describing.begin(), describing.end());
    for (const std::uint32_t item : items.numbers()) {
        if (!wanted.contains(item)) {
            continue;
        }
        const std::vector<Bytes> content = items.content(item);
        const Bytes bytes = content.size() == 1 ? content[0] : Bytes();
        if (items.type(item) == "Exif") {
            found.exif = tail(bytes, kPreceding);
        } else if (items.content_type(item) == "application/rdf+xml") {
            found.xmp = bytes;
        }
    }
    return found;
}

}  // namespace spdl
