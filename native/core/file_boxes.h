#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

// Reads big-endian integers one after the other; all are 0 behind the end.
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

// Takes off the box at the front of `boxes`. Returns nothing if there is no whole box.
std::optional<FileBox> take_box(Bytes& boxes);

// Returns the content of the first box of that name; empty if there is none.
[[nodiscard]] Bytes find_box(Bytes boxes, std::string_view name);

}  // namespace spdl
