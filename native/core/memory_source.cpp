#include "core/memory_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace spdl {

MemorySource::MemorySource(Bytes bytes, std::shared_ptr<const void> owner) : owner_(std::move(owner)), bytes_(bytes) {}

std::size_t MemorySource::read(std::uint8_t* into, std::size_t size) {
    const std::size_t count = std::min(size, bytes_.size() - position_);
    if (count > 0) {
        std::memcpy(into, bytes_.data() + position_, count);
        position_ += count;
    }
    return count;
}

}  // namespace spdl
