#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// Bytes that a demuxer reads in any order: of a file, in memory, or from an object of the user's. One thread at a time.
class ByteSource {
  public:
    static constexpr std::int64_t kUnknown = -1;

    virtual ~ByteSource() = default;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;

    // Returns how many bytes there are; kUnknown for a source that can only be read on.
    [[nodiscard]] virtual std::int64_t size() = 0;

    // Reads at most `size` bytes on; returns 0 at the end only.
    virtual std::size_t read(std::uint8_t* into, std::size_t size) = 0;

    // Goes to a position within the size. Not called if that is unknown.
    virtual void seek(std::int64_t position) = 0;

  protected:
    ByteSource() = default;
};

}  // namespace spdl
