#include "image/heic/property_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "core/bounded_read.h"
#include "core/media_error.h"
#include "core/quoted.h"

namespace spdl {
namespace {

// Those that begin with a version, of which there is one.
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

}  // namespace

void check_properties(std::span<const FileBox> properties) {
    for (const auto& [name, content] : properties) {
        if ((is_one_of(name, kVersioned) && (content.size() < 4 || content[0] != 0)) ||
            (name == "clap" && !is_clap(content)) || (name == "colr" && !is_color(content))) {
            throw MediaError("cannot read the HEIF: its property " + quoted(name, true) +
                             " is damaged, or of a kind that is not known");
        }
    }
}

}  // namespace spdl
