#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace spdl {

// A file that is open for reading. All errors are MediaErrors. Interrupted calls go on, as on_interrupt says.
class FileDescriptor {
  public:
    // A null character must follow the path.
    explicit FileDescriptor(std::string_view path);
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor();

    // Returns the size of a regular file; nothing for others, such as pipes. Throws for a directory.
    [[nodiscard]] std::optional<std::size_t> size() const;

    // Reads at most `size` bytes on; returns 0 at the end.
    std::size_t read(std::uint8_t* into, std::size_t size) const;

    // Reads at most `size` bytes at a position of a regular file. Processes that were forked may do so at once.
    std::size_t read_at(std::int64_t position, std::uint8_t* into, std::size_t size) const;

  private:
    int fd_ = -1;
};

}  // namespace spdl
