#pragma once

#include <cstddef>
#include <utility>

#include "av/picture_writer.h"
#include "core/buffer.h"
#include "core/geometry.h"
#include "media/load_options.h"

namespace spdl {

// Throws that pictures which follow each other have these sizes.
[[noreturn]] void throw_size_change(Size from, Size to);

// One array of pictures, whose size is that of the first one written. All errors are MediaErrors.
class PictureArray {
  public:
    // The options and the memory, null for new memory, must live as long as the array is being made.
    PictureArray(const LoadOptions& options, int rotation, std::size_t count, const Memory* memory);

    void write(const AVFrame& frame, std::size_t row);

    // Makes a row equal to another one.
    void copy(std::size_t from, std::size_t to);

    // Returns the array, whose rows must have been written.
    Buffer take() { return std::move(array_); }

  private:
    const LoadOptions& options_;
    PictureWriter writer_;
    std::size_t count_;
    const Memory* memory_;
    Buffer array_;
    Size canvas_;
    std::size_t row_bytes_ = 0;
};

}  // namespace spdl
