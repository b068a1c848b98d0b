#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Metadata of an image: bytes of its file, or what was made of them.
class MetadataBlock {
  public:
    MetadataBlock() = default;
    explicit MetadataBlock(Bytes viewed) : viewed_(viewed) {}
    explicit MetadataBlock(std::vector<std::uint8_t> made) : made_(std::move(made)) {}

    [[nodiscard]] Bytes bytes() const { return made_.empty() ? viewed_ : Bytes(made_); }

    void append(Bytes more) {
        if (made_.empty()) {
            made_.assign(viewed_.begin(), viewed_.end());
        }
        made_.insert(made_.end(), more.begin(), more.end());
    }

  private:
    Bytes viewed_;
    std::vector<std::uint8_t> made_;
};

// The metadata that may say how an image is turned. They are empty if there are none.
struct ImageMetadata {
    MetadataBlock exif;
    MetadataBlock xmp;
};

}  // namespace spdl
