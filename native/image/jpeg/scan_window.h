#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// A window that moves along the entropy-coded data of a scan, without its byte stuffing. Behind the last byte, in front
// of the marker that ends the scan, it holds zeros: libjpeg's decoder uses those for missing data.
class ScanWindow {
  public:
    // The bytes that can be read without a check, counted from any place at which `ready` was asked for them.
    static constexpr std::size_t kReach = 4096;

    // Starts at the beginning of `data`. Returns false, and begins nothing, if no marker follows, or if there is more
    // than one 0xff in front of a zero: libjpeg's result then depends on how far ahead of the decoding it has read.
    bool begin(Bytes data) noexcept;

    // Makes kReach bytes readable at `at`, the place where reading stopped last; at first, `start()`. Returns that
    // place, which may have moved.
    const std::uint8_t* ready(const std::uint8_t* at) noexcept { return at <= last_ready_ ? at : move(at); }

    [[nodiscard]] const std::uint8_t* start() const { return bytes_.data(); }

    // Returns the end of the data, as far as the window has come.
    [[nodiscard]] const std::uint8_t* end() const { return end_; }

    // Returns what follows the scan, from the marker that ends it on.
    [[nodiscard]] Bytes behind() const { return behind_; }

  private:
    static constexpr std::size_t kSize = std::size_t{1} << 15U;

    const std::uint8_t* move(const std::uint8_t* at) noexcept;
    void fill(std::uint8_t* to) noexcept;

    std::array<std::uint8_t, kSize + kReach> bytes_{};
    const std::uint8_t* end_ = nullptr;
    const std::uint8_t* last_ready_ = nullptr;
    Bytes rest_;  // The data that the window has not reached.
    Bytes behind_;
};

}  // namespace spdl
