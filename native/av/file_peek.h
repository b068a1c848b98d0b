#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ffmpeg/libav.h"

namespace spdl {

// Reads from where libav reads, and goes back there in the end.
class Peek {
  public:
    Peek(AVIOContext& input, std::int64_t size) : input_(input), size_(size), before_(avio_tell(&input)) {}
    Peek(const Peek&) = delete;
    Peek& operator=(const Peek&) = delete;
    ~Peek() { avio_seek(&input_, before_, SEEK_SET); }

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Returns whether there are so many bytes, and reads them.
    template <std::size_t N>
    bool read(std::int64_t position, std::array<std::uint8_t, N>& into) {
        return position <= size_ - static_cast<std::int64_t>(N) && avio_seek(&input_, position, SEEK_SET) == position &&
               avio_read(&input_, into.data(), static_cast<int>(N)) == static_cast<int>(N);
    }

  private:
    AVIOContext& input_;
    std::int64_t size_;
    std::int64_t before_;
};

// Returns whether bytes begin with these letters.
inline bool is(const std::uint8_t* bytes, std::string_view name) {
    return std::memcmp(bytes, name.data(), name.size()) == 0;
}

}  // namespace spdl
