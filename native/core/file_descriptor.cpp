#include "core/file_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {
namespace {

void check_path(std::string_view path) {
    if (path.empty()) {
        throw MediaError("cannot open the file: its path is empty");
    }
    if (path.find('\0') != std::string_view::npos) {
        throw MediaError("cannot open the file: its path holds a null character");
    }
}

// Returns the result of a call that reads, made again where a signal has interrupted it.
template <typename Call>
std::size_t finished(const Call& call) {
    for (;;) {
        const ssize_t got = call();
        if (got >= 0) {
            return static_cast<std::size_t>(got);
        }
        if (errno != EINTR) {
            throw MediaError(std::string("cannot read the file: ") + std::strerror(errno));
        }
        on_interrupt();
    }
}

}  // namespace

FileDescriptor::FileDescriptor(std::string_view path) {
    check_path(path);
    while ((fd_ = ::open(path.data(), O_RDONLY | O_CLOEXEC)) < 0) {
        if (errno != EINTR) {
            throw MediaError(std::string("cannot open the file: ") + std::strerror(errno));
        }
        on_interrupt();
    }
}

FileDescriptor::~FileDescriptor() {
    ::close(fd_);
}

std::optional<std::size_t> FileDescriptor::size() const {
    struct stat status{};
    if (::fstat(fd_, &status) != 0) {
        throw MediaError(std::string("cannot examine the file: ") + std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
        throw MediaError("cannot read the file: it is a directory");
    }
    return S_ISREG(status.st_mode) ? std::optional(static_cast<std::size_t>(status.st_size)) : std::nullopt;
}

std::size_t FileDescriptor::read(std::uint8_t* into, std::size_t size) const {
    return finished([&] { return ::read(fd_, into, size); });
}

std::size_t FileDescriptor::read_at(std::int64_t position, std::uint8_t* into, std::size_t size) const {
    return finished([&] { return ::pread(fd_, into, size, position); });
}

}  // namespace spdl
