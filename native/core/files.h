#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/non_copyable.h"

namespace spdl {

// Says what a small file is that Git LFS has not fetched: a text in its place. Null for any other.
[[nodiscard]] const char* describe_unfetched(Bytes bytes) noexcept;

// Bytes that a demuxer reads in any order: of a file, in memory, or from a user's object. One thread at a time.
class ByteSource : NonCopyable {
  public:
    static constexpr std::int64_t kUnknown = -1;

    virtual ~ByteSource() = default;

    // Returns how many bytes there are; kUnknown for a source that can only be read on.
    [[nodiscard]] virtual std::int64_t size() = 0;

    // Reads at most `size` bytes on; returns 0 at the end only.
    virtual std::size_t read(std::uint8_t* into, std::size_t size) = 0;

    // Goes to a position within the size. Not called if that is unknown.
    virtual void seek(std::int64_t position) = 0;
};

// The target of a muxer: a file, or a user's object. One thread at a time.
class ByteSink : NonCopyable {
  public:
    virtual ~ByteSink() = default;

    // Returns whether seek() may be called.
    [[nodiscard]] virtual bool can_seek() const = 0;

    // Writes all of the bytes on.
    virtual void write(Bytes bytes) = 0;

    // Goes to a position, counted from where the sink began.
    virtual void seek(std::int64_t position) = 0;

    // Reads at most `size` of the bytes at a position that were written before; returns 0 at the end only. The next
    // write's position does not change.
    virtual std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) = 0;
};

// A file that is open for reading. All errors are MediaErrors. Interrupted calls go on, as on_interrupt says.
class FileDescriptor : NonCopyable {
  public:
    // A null character must follow the path.
    explicit FileDescriptor(std::string_view path);
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

// Reads whole files into memory, which it keeps for the next file.
class FileReader {
  public:
    // Returns the content of the file at `path`, valid until the next read. A null character must follow the path.
    // Throws MediaError if the file cannot be read.
    Bytes read(std::string_view path);

  private:
    AlignedBuffer memory_;
};

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

// A file that the caller has opened, and closes afterwards. All errors are MediaErrors. Interrupted calls go on, as
// on_interrupt says.
class FileSink final : public ByteSink {
  public:
    explicit FileSink(int descriptor);

    [[nodiscard]] bool can_seek() const override { return can_seek_; }
    void write(Bytes bytes) override;
    void seek(std::int64_t position) override;
    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override;

  private:
    int fd_;
    bool can_seek_;
};

// A file in memory, read-only, for the lifetime of this object. It keeps no descriptor, because a program may have more
// arrays than it may have files open.
class MappedFile {
  public:
    // Throws std::system_error with the error of open, fstat or mmap, and FormatError for a pointer of Git LFS.
    explicit MappedFile(const char* path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();

    [[nodiscard]] Bytes get() const { return {data_, size_}; }

  private:
    const std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

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
