#pragma once

#include <cstdint>
#include <cstring>
#include <span>
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
    bool read(std::int64_t position, std::span<std::uint8_t> into) {
        const auto count = static_cast<int>(into.size());
        return position >= 0 && position <= size_ - count && avio_seek(&input_, position, SEEK_SET) == position &&
               avio_read(&input_, into.data(), count) == count;
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
