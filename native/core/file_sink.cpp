#include "core/file_sink.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {

FileSink::FileSink(int descriptor) : fd_(descriptor), can_seek_(::lseek(descriptor, 0, SEEK_CUR) >= 0) {}

void FileSink::write(Bytes bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
        if (put >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(put));
        } else if (errno != EINTR) {
            throw MediaError(std::string("cannot write the file: ") + std::strerror(errno));
        } else {
            on_interrupt();
        }
    }
}

void FileSink::seek(std::int64_t position) {
    if (::lseek(fd_, position, SEEK_SET) < 0) {
        throw MediaError("cannot go to byte " + std::to_string(position) + " of the file: " + std::strerror(errno));
    }
}

std::size_t FileSink::read_back(std::int64_t position, std::uint8_t* into, std::size_t size) {
    for (;;) {
        const ssize_t got = ::pread(fd_, into, size, position);
        if (got >= 0) {
            return static_cast<std::size_t>(got);
        }
        if (errno != EINTR) {
            throw MediaError(std::string("cannot read the file back: ") + std::strerror(errno));
        }
        on_interrupt();
    }
}

}  // namespace spdl
