#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Reads big-endian integers one after the other; all are 0 after the end.
class BoxReader {
  public:
    explicit BoxReader(Bytes bytes) : rest_(bytes) {}

    std::uint64_t take(std::size_t size) {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i) {
            value = value << 8U | (i < rest_.size() ? rest_[i] : 0U);
        }
        skip(size);
        return value;
    }

    // Returns the text up to a null character, which it skips, or to the end.
    std::string_view take_text();

    void skip(std::size_t size) { rest_ = size < rest_.size() ? rest_.subspan(size) : Bytes(); }

    [[nodiscard]] Bytes rest() const { return rest_; }

  private:
    Bytes rest_;
};

// A box of a file of ISO's base media format: its name of four letters, and what is in it.
struct FileBox {
    std::string_view name;
    Bytes content;
};

// Takes off the box at the front of `boxes`. Returns nothing without a whole box.
std::optional<FileBox> take_box(Bytes& boxes);

// Returns the content of the first box of that name; empty if none exists.
[[nodiscard]] Bytes find_box(Bytes boxes, std::string_view name);

// A file's property of one of its items.
struct ItemProperty {
    FileBox box;
    bool essential = false;  // Who does not know it must not show the item.
};

// The items of a file of the family of HEIF and AVIF (ISO/IEC 23008-12): pictures, and their properties. Nothing
// outside the bytes is read, whatever they say; what cannot be found is left empty.
class ImageItems {
  public:
    explicit ImageItems(Bytes file);

    [[nodiscard]] std::size_t file_bytes() const { return file_.size(); }

    // Returns whether the file has a list of items.
    [[nodiscard]] bool any() const { return !items_.empty(); }

    // Returns whether all lists could be read to their ends, and what they mention is there.
    [[nodiscard]] bool whole() const { return whole_; }

    // Returns the content of the box that says what the items are for.
    [[nodiscard]] Bytes handler() const { return handler_; }

    // Returns the numbers of all items, in their order in the list.
    [[nodiscard]] const std::vector<std::uint32_t>& numbers() const { return numbers_; }

    // Returns the number of the item that is the file's picture.
    [[nodiscard]] std::uint32_t primary() const { return primary_; }

    // Returns such as "hvc1", or "grid" for a picture in tiles; empty if there is no such item.
    [[nodiscard]] std::string_view type(std::uint32_t item) const;

    // Returns the kind of an item of the type "mime".
    [[nodiscard]] std::string_view content_type(std::uint32_t item) const;

    [[nodiscard]] bool encrypted(std::uint32_t item) const;

    // Returns what is said about any item.
    [[nodiscard]] const std::vector<FileBox>& properties() const { return properties_; }

    // Returns what is said about an item, in that order.
    [[nodiscard]] std::vector<ItemProperty> properties(std::uint32_t item) const;

    // Returns the items to which an item refers, or those that refer to it, in their order in the file.
    [[nodiscard]] std::vector<std::uint32_t> referred(std::string_view kind, std::uint32_t from) const;
    [[nodiscard]] std::vector<std::uint32_t> referring(std::string_view kind, std::uint32_t to) const;

    // Returns the pieces of an item one after the other; nothing if one of them does not lie within the file, or if
    // they have more bytes than the file.
    [[nodiscard]] std::vector<Bytes> content(std::uint32_t item) const;

  private:
    struct Association {
        std::uint32_t property;  // Counted from 0.
        bool essential;
    };
    struct Item {
        std::string_view type;
        std::string_view content_type;
        bool encrypted = false;
        std::vector<Association> associations;
    };
    struct Place {
        std::uint64_t method;
        bool elsewhere;  // In another file.
        std::uint64_t base;
        std::uint64_t count;
        Bytes extents;
    };
    struct Reference {
        std::string_view kind;
        std::uint32_t from;
        std::vector<std::uint32_t> to;
    };

    // Returns the boxes that lie one after the other.
    std::vector<FileBox> boxes_in(Bytes bytes);
    void read_entries(Bytes iinf);
    void read_associations(Bytes ipma);
    void read_references(Bytes iref);
    void read_places(Bytes iloc);
    [[nodiscard]] const Item* find(std::uint32_t item) const;

    Bytes file_;
    bool whole_ = true;
    Bytes handler_;
    Bytes held_;  // By the list of items itself.
    std::uint32_t primary_ = 0;
    std::vector<std::uint32_t> numbers_;
    std::unordered_map<std::uint32_t, Item> items_;
    std::vector<FileBox> properties_;
    std::vector<Reference> references_;
    std::unordered_map<std::uint32_t, Place> places_;
    std::size_t index_size_ = 0;  // Of the numbers of a place.
    std::size_t offset_size_ = 0;
    std::size_t length_size_ = 0;
};

// The item of such a file that is its picture.
struct PrimaryItem {
    std::string_view type;
    std::vector<FileBox> properties;
};

[[nodiscard]] PrimaryItem primary_item(Bytes file);

// The items of such a file that describe its picture; each is empty if none exists, or if its bytes do not lie together
// within the file.
struct ItemMetadata {
    Bytes exif;  // Behind the number of bytes that precede it.
    Bytes xmp;
};

// Finds the metadata of the primary item. If there are several of a kind, the last one counts.
[[nodiscard]] ItemMetadata primary_metadata(Bytes file);

}  // namespace spdl
