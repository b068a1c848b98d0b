#include "core/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "core/errors.h"
#include "core/geometry.h"
#include "core/parallel.h"

namespace spdl {
namespace {

// The beginning of a pointer, which has less than 1,024 bytes.
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
constexpr std::size_t kMaxPointerBytes = 1024;

void check_path(std::string_view path) {
    if (path.empty()) {
        throw MediaError("cannot open the file: its path is empty");
    }
    if (path.find('\0') != std::string_view::npos) {
        throw MediaError("cannot open the file: its path holds a null character");
    }
}

// Returns the result of a call that reads or writes, repeated if a signal has interrupted it. Errors begin with
// `tried`.
template <typename Call>
std::size_t finished(const char* tried, const Call& call) {
    for (;;) {
        const ssize_t got = call();
        if (got >= 0) {
            return static_cast<std::size_t>(got);
        }
        if (errno != EINTR) {
            throw MediaError(tried + std::string(": ") + std::strerror(errno));
        }
        on_interrupt();
    }
}

}  // namespace

const char* describe_unfetched(Bytes bytes) noexcept {
    if (bytes.size() < kPointer.size() || std::memcmp(bytes.data(), kPointer.data(), kPointer.size()) != 0) {
        return nullptr;
    }
    return "it is a pointer of Git LFS, not the file itself, which `git lfs pull` fetches";
}

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
    return finished("cannot read the file", [&] { return ::read(fd_, into, size); });
}

std::size_t FileDescriptor::read_at(std::int64_t position, std::uint8_t* into, std::size_t size) const {
    return finished("cannot read the file", [&] { return ::pread(fd_, into, size, position); });
}

namespace {

// Enough for most photos. Pipes and other files of unknown length start with it, too.
constexpr std::size_t kFirstBytes = 1 << 18;

}  // namespace

Bytes FileReader::read(std::string_view path) {
    const FileDescriptor file(path);
    const std::size_t hint = file.size().value_or(0);
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

FileSource::FileSource(std::string_view path) : file_(path), size_(kUnknown) {
    if (const auto size = file_.size()) {
        size_ = static_cast<std::int64_t>(*size);
        std::array<std::uint8_t, kPointer.size()> begin{};
        if (*size < kMaxPointerBytes) {
            if (const char* const said =
                    describe_unfetched({begin.data(), file_.read_at(0, begin.data(), begin.size())})) {
                throw MediaError(std::string("cannot read the file: ") + said);
            }
        }
    }
}

std::size_t FileSource::read(std::uint8_t* into, std::size_t size) {
    if (size_ == kUnknown) {
        return file_.read(into, size);
    }
    const std::size_t count = file_.read_at(position_, into, size);
    position_ += static_cast<std::int64_t>(count);
    return count;
}

FileSink::FileSink(int descriptor) : fd_(descriptor), can_seek_(::lseek(descriptor, 0, SEEK_CUR) >= 0) {}

void FileSink::write(Bytes bytes) {
    while (!bytes.empty()) {
        bytes =
            bytes.subspan(finished("cannot write the file", [&] { return ::write(fd_, bytes.data(), bytes.size()); }));
    }
}

void FileSink::seek(std::int64_t position) {
    if (::lseek(fd_, position, SEEK_SET) < 0) {
        throw MediaError("cannot go to byte " + std::to_string(position) + " of the file: " + std::strerror(errno));
    }
}

std::size_t FileSink::read_back(std::int64_t position, std::uint8_t* into, std::size_t size) {
    return finished("cannot read the file back", [&] { return ::pread(fd_, into, size, position); });
}

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
    if (size_ < kMaxPointerBytes) {
        if (const char* const said = describe_unfetched({data_, size_})) {
            ::munmap(const_cast<std::uint8_t*>(std::exchange(data_, nullptr)), size_);
            throw FormatError(said);
        }
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
