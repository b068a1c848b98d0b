#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// Where a muxer writes to: a file, or an object of the user's. One thread at a time.
class ByteSink {
  public:
    virtual ~ByteSink() = default;
    ByteSink(const ByteSink&) = delete;
    ByteSink& operator=(const ByteSink&) = delete;

    // Returns whether seek() may be called.
    [[nodiscard]] virtual bool can_seek() const = 0;

    // Writes all of the bytes on.
    virtual void write(Bytes bytes) = 0;

    // Goes to a position, counted from where the sink began.
    virtual void seek(std::int64_t position) = 0;

    // Reads at most `size` of the bytes at a position that were written before; returns 0 at the end only. The next
    // write goes where it would have gone.
    virtual std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) = 0;

  protected:
    ByteSink() = default;
};

}  // namespace spdl
