#pragma once

#include <memory>

#include "core/byte_source.h"
#include "core/bytes.h"

namespace spdl {

// Bytes in memory, read in place.
class MemorySource final : public ByteSource {
  public:
    // `owner` keeps the bytes in place; null if the caller does.
    explicit MemorySource(Bytes bytes, std::shared_ptr<const void> owner = nullptr);

    [[nodiscard]] std::int64_t size() override { return static_cast<std::int64_t>(bytes_.size()); }
    std::size_t read(std::uint8_t* into, std::size_t size) override;
    void seek(std::int64_t position) override { position_ = static_cast<std::size_t>(position); }

  private:
    std::shared_ptr<const void> owner_;
    Bytes bytes_;
    std::size_t position_ = 0;
};

}  // namespace spdl
