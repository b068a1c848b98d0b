#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "media/array_format.h"
#include "media/picture.h"
#include "media/rational.h"

namespace spdl {

// The properties of a frame besides its pixels.
struct FrameProperties {
    static constexpr std::int64_t kNoTime = INT64_MIN;

    std::int64_t time = kNoTime;  // When it is shown, in units of `time_base`.
    Rational time_base;           // In seconds.
    std::vector<std::pair<std::string, std::string>> metadata;
};

// A decoded image in host memory.
class Frame {
  public:
    virtual ~Frame() = default;
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    [[nodiscard]] virtual Picture picture() const = 0;
    [[nodiscard]] virtual int num_planes() const = 0;

    // The size of the memory that holds the pixels.
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    [[nodiscard]] virtual FrameProperties properties() const = 0;
    virtual void set_properties(const FrameProperties& properties) = 0;

    // Returns the first plane. Only the maker of the frame may write to it.
    virtual std::uint8_t* pixels() noexcept = 0;

    // Returns another frame that shares the pixels.
    [[nodiscard]] virtual std::unique_ptr<Frame> clone() const = 0;

  protected:
    Frame() = default;
};

// Makes a frame for pixels in one of FFmpeg's pixel formats, which is packed. They are not initialised.
using StoredFrameMaker = std::unique_ptr<Frame> (*)(Size size, const char* pixel_format);

// Makes a frame without gaps between rows, with room for an image in this format. Its pixels are not initialised.
using FrameMaker = std::unique_ptr<Frame> (*)(Size size, const ArrayFormat& format);

}  // namespace spdl
