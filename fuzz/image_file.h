#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>
#include <system_error>

namespace spdl::fuzz {

// A file in memory that has a path.
class ImageFile {
  public:
    explicit ImageFile(std::span<const std::uint8_t> content)
        : descriptor_(::memfd_create("image", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
        if (::write(descriptor_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
            throw std::system_error(errno, std::generic_category(), path_);
        }
    }
    ImageFile(const ImageFile&) = delete;
    ImageFile& operator=(const ImageFile&) = delete;
    ~ImageFile() { ::close(descriptor_); }

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    int descriptor_;
    std::string path_;
};

}  // namespace spdl::fuzz
