#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/interrupt.h"

namespace spdl {
namespace {

struct Descriptor {
    int number;
    ~Descriptor() { ::close(number); }
};

[[noreturn]] void fail() {
    throw std::system_error(errno, std::generic_category());
}

}  // namespace

MappedFile::MappedFile(const char* path) {
    struct stat status{};
    // This comes before opening the file: a pipe that is opened and closed again ends its writer.
    if (::stat(path, &status) != 0) {
        fail();
    }
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : ENODEV;
        fail();
    }
    int number = -1;
    while ((number = ::open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        if (errno != EINTR) {
            fail();
        }
        on_interrupt();
    }
    const Descriptor file{number};
    if (::fstat(number, &status) != 0) {
        fail();
    }
    // An empty file cannot be mapped.
    if (status.st_size > 0) {
        const auto size = static_cast<std::size_t>(status.st_size);
        void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, number, 0);
        if (memory == MAP_FAILED) {
            fail();
        }
        data_ = static_cast<const std::uint8_t*>(memory);
        size_ = size;
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        // munmap does not fail for a mapping of the system's own.
        ::munmap(const_cast<std::uint8_t*>(data_), size_);
    }
}

}  // namespace spdl
