#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/bounded_read.h"
#include "core/bytes.h"

namespace spdl {

// The segments of a JPEG, from the one behind its first marker on.
class JpegSegments {
  public:
    struct Segment {
        std::uint8_t marker = 0;  // Its second byte.
        Bytes content;
    };

    explicit JpegSegments(Bytes jpeg) : rest_(tail(jpeg, 2)) {}

    // Returns the next segment; nothing if what follows is none, or its end is missing.
    std::optional<Segment> next() {
        while (rest_.size() >= 4 && rest_[0] == 0xff) {
            const std::uint8_t marker = rest_[1];
            if (marker == 0xff) {  // A fill byte.
                rest_ = rest_.subspan(1);
                continue;
            }
            const std::size_t length = read_integer(rest_, 2, 2, false);
            if (length < 2 || length > rest_.size() - 2) {
                break;
            }
            const Segment segment{marker, rest_.subspan(4, length - 2)};
            rest_ = rest_.subspan(2 + length);
            return segment;
        }
        return std::nullopt;
    }

    // Returns what follows the last segment.
    [[nodiscard]] Bytes rest() const { return rest_; }

  private:
    Bytes rest_;
};

}  // namespace spdl
