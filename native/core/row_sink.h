#pragma once

#include <cstdint>

namespace spdl {

// Takes an image row by row, from the top, as packed RGB bytes. A decoder asks where a row goes, writes it there, and
// reports it. The calls never throw, because libjpeg may leave the frames that make them by longjmp.
class RowSink {
  public:
    // A decoder asks for at most this many rows before it commits them.
    static constexpr int kMaxRows = 4;

    virtual ~RowSink() = default;

    // Returns where to write row `y`: 3 * width bytes.
    virtual std::uint8_t* row(int y) noexcept = 0;

    // Rows [y, y + count) are written.
    virtual void commit(int y, int count) noexcept = 0;

    RowSink() = default;
    RowSink(const RowSink&) = delete;
    RowSink& operator=(const RowSink&) = delete;
};

}  // namespace spdl
