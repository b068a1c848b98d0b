#pragma once

#include <cstdint>

namespace spdl {

// Takes an image row by row, from the top, as packed RGB bytes. A decoder asks where a row goes, writes it there, and
// says so; the calls never throw, since they are made from frames that libjpeg may leave by longjmp.
class RowSink {
  public:
    // At most this many rows are asked for before they are committed.
    static constexpr int kMaxRows = 4;

    virtual ~RowSink() = default;

    // Where row `y` is to be written: 3 * width bytes.
    virtual std::uint8_t* row(int y) noexcept = 0;

    // Rows [y, y + count) are written.
    virtual void commit(int y, int count) noexcept = 0;

    RowSink() = default;
    RowSink(const RowSink&) = delete;
    RowSink& operator=(const RowSink&) = delete;
};

}  // namespace spdl
