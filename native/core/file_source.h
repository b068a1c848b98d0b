#pragma once

#include <optional>
#include <string_view>

#include "core/byte_source.h"
#include "core/file_descriptor.h"

namespace spdl {

// A file, read piece by piece. All errors are MediaErrors.
class FileSource final : public ByteSource {
  public:
    // A null character must follow the path.
    explicit FileSource(std::string_view path);

    [[nodiscard]] std::int64_t size() override { return size_; }
    std::size_t read(std::uint8_t* into, std::size_t size) override;
    void seek(std::int64_t position) override { position_ = position; }

  private:
    FileDescriptor file_;
    std::int64_t size_;
    std::int64_t position_ = 0;  // Its own, as a forked process shares that of the descriptor.
};

}  // namespace spdl
