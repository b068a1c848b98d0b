#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "av/file_peek.h"
#include "core/bytes.h"

namespace spdl {

// The sizes of tags, or of their headers and footers.
constexpr std::int64_t kId3v1 = 128;
constexpr std::int64_t kEnhancedId3v1 = 227;  // Stands in front of the other.
constexpr std::int64_t kId3v2Head = 10;
constexpr std::int64_t kApeHead = 32;

inline bool begins(Bytes bytes, std::string_view name) {
    return bytes.size() >= name.size() && is(bytes.data(), name);
}

// Returns how much there is behind the header, or in front of the footer, of an ID3v2 tag; nothing if it is none.
std::optional<std::int64_t> id3v2_contents(Bytes head);

// Returns how much an APE tag has by its header or footer, with the footer.
std::int64_t ape_contents(Bytes head);

// Return how many bytes the tag has that begins here; 0 if none does.
std::int64_t id3v2_bytes(Bytes bytes);
std::int64_t tag_bytes(Bytes bytes);

}  // namespace spdl
