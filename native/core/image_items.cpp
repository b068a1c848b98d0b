#include "core/image_items.h"

#include <cstddef>
#include <optional>

namespace spdl {
namespace {

// Reads big-endian integers one after the other; all are 0 behind the end.
class Reader {
  public:
    explicit Reader(Bytes bytes) : rest_(bytes) {}

    std::uint64_t take(std::size_t size) {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i) {
            value = value << 8U | (i < rest_.size() ? rest_[i] : 0U);
        }
        skip(size);
        return value;
    }

    void skip(std::size_t size) { rest_ = size < rest_.size() ? rest_.subspan(size) : Bytes(); }

    [[nodiscard]] Bytes rest() const { return rest_; }

  private:
    Bytes rest_;
};

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes off the box at the front of `boxes`. Returns nothing if there is no whole box.
std::optional<FileBox> take_box(Bytes& boxes) {
    Reader reader(boxes);
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

// Returns the content of the first box of that name; empty if there is none.
Bytes find_box(Bytes boxes, std::string_view name) {
    while (const auto box = take_box(boxes)) {
        if (box->name == name) {
            return box->content;
        }
    }
    return {};
}

std::uint64_t primary_number(Bytes meta) {
    Reader reader(find_box(meta, "pitm"));
    const std::uint64_t version = reader.take(1);
    reader.skip(3);
    return reader.take(version == 0 ? 2 : 4);
}

std::string_view type_of(std::uint64_t item, Bytes iinf) {
    Reader list(iinf);
    const std::uint64_t list_version = list.take(1);
    list.skip(list_version == 0 ? 5 : 7);  // Flags, and how many there are.
    Bytes entries = list.rest();
    while (const auto entry = take_box(entries)) {
        Reader reader(entry->content);
        const std::uint64_t version = reader.take(1);
        reader.skip(3);
        // Older versions have no type.
        if (entry->name != "infe" || version < 2 || reader.take(version == 2 ? 2 : 4) != item) {
            continue;
        }
        reader.skip(2);  // How it is protected.
        return reader.rest().size() < 4 ? std::string_view() : text(reader.rest().first(4));
    }
    return {};
}

// Returns the numbers, counted from 1, that `ipma` associates with an item.
std::vector<std::uint64_t> associated_with(std::uint64_t item, Bytes ipma) {
    std::vector<std::uint64_t> numbers;
    Reader reader(ipma);
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

}  // namespace

PrimaryItem primary_item(Bytes file) {
    Bytes boxes = file;
    const auto first = take_box(boxes);
    if (!first || first->name != "ftyp") {
        return {};
    }
    Reader reader(find_box(boxes, "meta"));
    reader.skip(4);
    const Bytes meta = reader.rest();
    const std::uint64_t item = primary_number(meta);
    PrimaryItem found{type_of(item, find_box(meta, "iinf")), {}};

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

}  // namespace spdl
