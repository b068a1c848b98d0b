#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/bytes.h"

struct ZSTD_DCtx_s;

namespace spdl {

// Inflates zstd frames that come in pieces. Throws FormatError if they are damaged.
class ZstdStream {
  public:
    ZstdStream();

    // How much one step took and made. If it took all and made nothing, it needs more input.
    struct Step {
        std::size_t taken;
        std::size_t made;
    };

    Step inflate(Bytes compressed, std::span<std::uint8_t> into);

    // Returns whether the input may end here: between two frames.
    [[nodiscard]] bool between_frames() const { return between_frames_; }

  private:
    struct Free {
        void operator()(ZSTD_DCtx_s* held) const;
    };
    std::unique_ptr<ZSTD_DCtx_s, Free> context_;
    bool between_frames_ = true;
};

}  // namespace spdl
