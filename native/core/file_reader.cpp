#include "core/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/interrupt.h"
#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Enough for most photos. Pipes and other files of unknown length start with it, too.
constexpr std::size_t kFirstBytes = 1 << 18;

// The protocol of an address such as https://host/name, empty for anything else.
std::string_view protocol(std::string_view path) {
    const std::string_view name = path.substr(0, path.find("://"));
    const bool is_name = std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
    });
    return name.size() < path.size() && is_name ? name : std::string_view();
}

class Descriptor {
  public:
    explicit Descriptor(const char* path) {
        while ((fd_ = ::open(path, O_RDONLY | O_CLOEXEC)) < 0) {
            if (errno == ENOENT && !protocol(path).empty()) {
                throw MediaError("cannot open the address: the protocol \"" + std::string(protocol(path)) +
                                 "\" is not in this build, which reads files and bytes. Fetch it, for instance with "
                                 "urllib.request or fsspec, and pass the bytes");
            }
            if (errno != EINTR) {
                throw MediaError(std::string("cannot open the file: ") + std::strerror(errno));
            }
            on_interrupt();
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { ::close(fd_); }

    [[nodiscard]] std::size_t size_hint() const {
        struct stat status{};
        if (::fstat(fd_, &status) != 0) {
            throw MediaError(std::string("cannot examine the file: ") + std::strerror(errno));
        }
        if (S_ISDIR(status.st_mode)) {
            throw MediaError("cannot read the file: it is a directory");
        }
        return S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
    }

    std::size_t read(std::uint8_t* into, std::size_t size) const {
        for (;;) {
            const ssize_t got = ::read(fd_, into, size);
            if (got >= 0) {
                return static_cast<std::size_t>(got);
            }
            if (errno != EINTR) {
                throw MediaError(std::string("cannot read the file: ") + std::strerror(errno));
            }
            on_interrupt();
        }
    }

  private:
    int fd_ = -1;
};

void check_path(std::string_view path) {
    if (path.empty()) {
        throw MediaError("cannot open the file: its path is empty");
    }
    if (path.find('\0') != std::string_view::npos) {
        throw MediaError("cannot open the file: its path holds a null character");
    }
}

}  // namespace

Bytes FileReader::read(std::string_view path) {
    check_path(path);
    const Descriptor file(path.data());
    const std::size_t hint = file.size_hint();
    if (hint > kMaxEncodedBytes) {
        throw MediaError("cannot read the file: its " + std::to_string(hint) + " bytes are more than the " +
                         std::to_string(kMaxEncodedBytes) + " that an image may have");
    }
    if (memory_.size() > kKeptBytes && hint < kKeptBytes) {
        memory_ = AlignedBuffer();
    }
    // One byte more than expected: the read that finds the end then needs no second buffer.
    memory_.reserve(std::max(hint + 1, kFirstBytes));
    std::size_t size = 0;
    while (const std::size_t got = file.read(memory_.data() + size, memory_.size() - size)) {
        size += got;
        if (size > kMaxEncodedBytes) {
            throw MediaError("cannot read the file: it goes on after " + std::to_string(kMaxEncodedBytes) + " bytes");
        }
        if (size == memory_.size()) {
            AlignedBuffer larger(2 * size);
            std::memcpy(larger.data(), memory_.data(), size);
            memory_ = std::move(larger);
        }
    }
    return {memory_.data(), size};
}

}  // namespace spdl
