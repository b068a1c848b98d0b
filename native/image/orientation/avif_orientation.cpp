#include "image/orientation/avif_orientation.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

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

struct FileBox {
    std::string_view name;
    Bytes content;
};

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
    const FileBox box{{reinterpret_cast<const char*>(boxes.data()) + 4, 4},
                      boxes.subspan(header, static_cast<std::size_t>(size) - header)};
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

struct Turn {
    unsigned quarters = 0;  // Anticlockwise.
    bool mirrored = false;  // After the turn.
    bool left_to_right = false;
};

// Returns the property of that number, counted from 1, of a file.
void apply(Bytes properties, std::uint64_t number, Turn& turn) {
    for (std::uint64_t at = 1;; ++at) {
        const auto box = take_box(properties);
        if (!box) {
            return;
        }
        if (at < number) {
            continue;
        }
        if (box->content.empty()) {
            return;
        }
        if (box->name == "irot") {
            turn.quarters = box->content[0] & 3U;
        } else if (box->name == "imir") {
            turn.mirrored = true;
            turn.left_to_right = (box->content[0] & 1U) != 0;
        }
        return;
    }
}

// Returns what the associations in `ipma` say about one item.
Turn turn_of(std::uint64_t item, Bytes ipma, Bytes properties) {
    Turn turn;
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
                apply(properties, number, turn);
            }
        }
        if (wanted) {
            break;  // An item has one entry; more would only cost time.
        }
    }
    return turn;
}

}  // namespace

unsigned avif_orientation(Bytes avif) noexcept {
    Bytes boxes = avif;
    const auto first = take_box(boxes);
    if (!first || first->name != "ftyp") {
        return 0;
    }
    Reader meta(find_box(boxes, "meta"));
    meta.skip(4);
    Reader primary(find_box(meta.rest(), "pitm"));
    const std::uint64_t version = primary.take(1);
    primary.skip(3);
    const std::uint64_t item = primary.take(version == 0 ? 2 : 4);
    const Bytes properties = find_box(meta.rest(), "iprp");
    const Turn turn = turn_of(item, find_box(properties, "ipma"), find_box(properties, "ipco"));
    // For each number of quarters: as it is, mirrored top to bottom, mirrored left to right.
    static constexpr unsigned kNumbers[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    return kNumbers[turn.quarters][turn.mirrored ? (turn.left_to_right ? 2 : 1) : 0];
}

}  // namespace spdl
