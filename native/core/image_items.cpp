#include "core/image_items.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/bounded_read.h"

namespace spdl {
namespace {

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns what the box `meta` of a file holds; empty if it is no file of items.
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

std::uint64_t primary_number(Bytes meta) {
    BoxReader reader(find_box(meta, "pitm"));
    const std::uint64_t version = reader.take(1);
    reader.skip(3);
    return reader.take(version == 0 ? 2 : 4);
}

// What a list of items says about one of them.
struct ItemEntry {
    std::uint64_t number;
    std::string_view type;
    std::string_view content_type;  // Of an item of the type "mime".
};

// Takes off the entry at the front of a list. Returns nothing at its end.
std::optional<ItemEntry> take_entry(Bytes& entries) {
    while (const auto entry = take_box(entries)) {
        BoxReader reader(entry->content);
        const std::uint64_t version = reader.take(1);
        reader.skip(3);
        if (entry->name != "infe" || version < 2) {  // Older versions have no type.
            continue;
        }
        ItemEntry item{reader.take(version == 2 ? 2 : 4), {}, {}};
        reader.skip(2);  // How it is protected.
        if (reader.rest().size() >= 4) {
            item.type = text(reader.rest().first(4));
            reader.skip(4);
        }
        if (item.type == "mime") {
            reader.take_text();  // Its name.
            item.content_type = reader.take_text();
        }
        return item;
    }
    return std::nullopt;
}

Bytes entries_of(Bytes meta) {
    BoxReader list(find_box(meta, "iinf"));
    const std::uint64_t version = list.take(1);
    list.skip(version == 0 ? 5 : 7);  // Flags, and how many there are.
    return list.rest();
}

std::string_view type_of(std::uint64_t item, Bytes entries) {
    while (const auto entry = take_entry(entries)) {
        if (entry->number == item) {
            return entry->type;
        }
    }
    return {};
}

// Returns the numbers, counted from 1, that `ipma` associates with an item.
std::vector<std::uint64_t> associated_with(std::uint64_t item, Bytes ipma) {
    std::vector<std::uint64_t> numbers;
    BoxReader reader(ipma);
    const std::uint64_t version = reader.take(1);
    const bool wide = (reader.take(3) & 1U) != 0;
    const std::uint64_t entries = reader.take(4);
    for (std::uint64_t i = 0; i < entries && !reader.rest().empty(); ++i) {
        const bool wanted = reader.take(version < 1 ? 2 : 4) == item;
        const std::uint64_t count = reader.take(1);
        for (std::uint64_t k = 0; k < count; ++k) {
            const std::uint64_t number = wide ? reader.take(2) & 0x7fffU : reader.take(1) & 0x7fU;
            if (wanted && number > 0) {
                numbers.push_back(number);
            }
        }
        if (wanted) {
            break;  // An item has one entry; more would only cost time.
        }
    }
    return numbers;
}

// Returns the numbers of the items that are said to describe another.
std::unordered_set<std::uint64_t> describing(std::uint64_t item, Bytes iref) {
    std::unordered_set<std::uint64_t> numbers;
    BoxReader list(iref);
    const std::size_t size = list.take(1) == 0 ? 2 : 4;
    list.skip(3);
    for (Bytes rest = list.rest(); const auto reference = take_box(rest);) {
        BoxReader reader(reference->content);
        const std::uint64_t from = reader.take(size);
        const std::uint64_t count = reader.take(2);
        for (std::uint64_t i = 0; i < count && !reader.rest().empty(); ++i) {
            if (reader.take(size) == item && reference->name == "cdsc") {
                numbers.insert(from);
            }
        }
    }
    return numbers;
}

// Returns the bytes of an item that lie together.
Bytes content_of(std::uint64_t item, Bytes meta, Bytes file) {
    BoxReader reader(find_box(meta, "iloc"));
    const std::uint64_t version = reader.take(1);
    reader.skip(3);
    const auto take_sizes = [&] {
        const std::uint64_t both = reader.take(1);
        return std::pair{static_cast<std::size_t>(both >> 4U), static_cast<std::size_t>(both & 0xfU)};
    };
    const auto [offset_size, length_size] = take_sizes();
    const auto [base_size, last_size] = take_sizes();
    const std::size_t index_size = version == 0 ? 0 : last_size;
    const std::uint64_t count = reader.take(version < 2 ? 2 : 4);
    for (std::uint64_t i = 0; i < count && !reader.rest().empty(); ++i) {
        const bool wanted = reader.take(version < 2 ? 2 : 4) == item;
        const std::uint64_t method = version == 0 ? 0 : reader.take(2) & 0xfU;
        reader.skip(2);  // Of another file.
        const std::uint64_t base = reader.take(base_size);
        const std::uint64_t extents = reader.take(2);
        if (!wanted) {
            reader.skip(static_cast<std::size_t>(extents) * (index_size + offset_size + length_size));
            continue;
        }
        reader.skip(index_size);
        const std::uint64_t begin = base + reader.take(offset_size);
        const std::uint64_t length = reader.take(length_size);
        const Bytes whole = method == 0 ? file : method == 1 ? find_box(meta, "idat") : Bytes();
        if (extents != 1 || begin > whole.size() || length > whole.size() - begin) {
            break;
        }
        return whole.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
    }
    return {};
}

}  // namespace

PrimaryItem primary_item(Bytes file) {
    const Bytes meta = meta_of(file);
    const std::uint64_t item = primary_number(meta);
    PrimaryItem found{type_of(item, entries_of(meta)), {}};

    const Bytes properties = find_box(meta, "iprp");
    std::vector<FileBox> all;
    for (Bytes rest = find_box(properties, "ipco"); const auto box = take_box(rest);) {
        all.push_back(*box);
    }
    for (const std::uint64_t number : associated_with(item, find_box(properties, "ipma"))) {
        if (number <= all.size()) {
            found.properties.push_back(all[static_cast<std::size_t>(number) - 1]);
        }
    }
    return found;
}

ItemMetadata primary_metadata(Bytes file) {
    const Bytes meta = meta_of(file);
    const std::unordered_set<std::uint64_t> numbers = describing(primary_number(meta), find_box(meta, "iref"));
    std::optional<std::uint64_t> exif;
    std::optional<std::uint64_t> xmp;
    for (Bytes entries = entries_of(meta); const auto entry = take_entry(entries);) {
        if (!numbers.contains(entry->number)) {
            continue;
        }
        if (entry->type == "Exif") {
            exif = entry->number;
        } else if (entry->content_type == "application/rdf+xml") {
            xmp = entry->number;
        }
    }
    constexpr std::size_t kPreceding = 4;
    return {exif ? tail(content_of(*exif, meta, file), kPreceding) : Bytes(),
            xmp ? content_of(*xmp, meta, file) : Bytes()};
}

}  // namespace spdl
