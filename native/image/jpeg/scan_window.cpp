#include "image/jpeg/scan_window.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace spdl {
namespace {

constexpr std::uint8_t kMarker = 0xff;

const std::uint8_t* find_marker(const std::uint8_t* from, std::size_t size) {
    return static_cast<const std::uint8_t*>(std::memchr(from, kMarker, size));
}

// Returns the data in front of the marker that ends them. Returns nothing if there is no marker, or if more than one
// 0xff stands in front of a zero. Both are against the standard, and libjpeg's result depends on how far it has read
// ahead.
std::optional<Bytes> entropy_coded(Bytes data) {
    const std::uint8_t* at = data.data();
    const std::uint8_t* const end = at + data.size();
    while ((at = find_marker(at, static_cast<std::size_t>(end - at))) != nullptr && end - at > 1) {
        if (at[1] != 0) {
            const std::uint8_t* const next = std::find_if(at, end, [](std::uint8_t byte) { return byte != kMarker; });
            if (next == end || *next == 0) {
                return {};
            }
            return Bytes(data.data(), at);
        }
        at += 2;
    }
    return {};
}

}  // namespace

bool ScanWindow::begin(Bytes data) noexcept {
    const std::optional<Bytes> coded = entropy_coded(data);
    if (!coded) {
        return false;
    }
    rest_ = *coded;
    behind_ = data.subspan(coded->size());
    fill(bytes_.data());
    return true;
}

const std::uint8_t* ScanWindow::move(const std::uint8_t* at) noexcept {
    const auto kept = static_cast<std::size_t>(end_ - at);
    std::memmove(bytes_.data(), at, kept);
    fill(bytes_.data() + kept);
    return bytes_.data();
}

void ScanWindow::fill(std::uint8_t* to) noexcept {
    std::uint8_t* const stop = bytes_.data() + kSize;
    while (to != stop && !rest_.empty()) {
        const std::size_t room = std::min(static_cast<std::size_t>(stop - to), rest_.size());
        const std::uint8_t* const found = find_marker(rest_.data(), room);
        const std::size_t taken = found == nullptr ? room : static_cast<std::size_t>(found + 1 - rest_.data());
        std::memcpy(to, rest_.data(), taken);
        to += taken;
        // The zero behind an 0xff is not data. It is missing only if somebody has changed the bytes meanwhile.
        rest_ = rest_.subspan(found == nullptr ? taken : std::min(taken + 1, rest_.size()));
    }
    end_ = to;
    last_ready_ = to - kReach;
    if (rest_.empty()) {
        std::memset(to, 0, kReach);
        last_ready_ = to;
    }
}

}  // namespace spdl
