#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/bytes.h"
#include "core/files.h"

namespace spdl {

// A Python binary file with untrusted methods: their results are checked, and errors name the method. All functions
// need the GIL. What Python raises comes as nanobind::python_error.
class PythonFile {
  public:
    explicit PythonFile(nanobind::object file);

    [[nodiscard]] bool can_seek() const { return can_seek_; }

    // Returns the position in bytes.
    [[nodiscard]] std::int64_t tell() const;

    void seek(std::int64_t position, int whence = 0) const;

    // Reads at most `size` bytes, and returns how many there were; 0 at the end.
    std::size_t read(std::uint8_t* into, std::size_t size) const;

    // Writes all bytes.
    void write(Bytes bytes) const;

    // Lets go of the object.
    void reset() { file_.reset(); }

  private:
    nanobind::object file_;
    bool can_seek_ = false;
};

// A Python binary file, read from its position on. It is called with the GIL held, which the callers of its functions
// need not hold. What Python raises comes as nanobind::python_error.
class PythonSource final : public ByteSource {
  public:
    // Needs the GIL, as the destructor takes it.
    explicit PythonSource(nanobind::object file);
    ~PythonSource() override;

    [[nodiscard]] std::int64_t size() override { return size_; }
    std::size_t read(std::uint8_t* into, std::size_t size) override;
    void seek(std::int64_t position) override;

  private:
    PythonFile file_;
    std::int64_t begin_ = 0;
    std::int64_t size_ = kUnknown;
};

// A Python binary file, written from its position on. If the file can seek, its user may move the position in the
// meantime. It is called with the GIL held, which the callers of its functions need not hold. What Python raises comes
// as nanobind::python_error.
class PythonSink final : public ByteSink {
  public:
    // Needs the GIL, as the destructor takes it.
    explicit PythonSink(nanobind::object file);
    ~PythonSink() override;

    [[nodiscard]] bool can_seek() const override { return can_seek_; }
    void write(Bytes bytes) override;
    void seek(std::int64_t position) override;
    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override;

  private:
    PythonFile file_;
    bool can_seek_ = false;
    std::int64_t begin_ = 0;
    std::int64_t position_ = 0;  // Where the next bytes belong, from `begin_` on.
};

// The bytes of a Python object, in place: one dimension of single bytes, C-contiguous. Created and destroyed with the
// GIL held.
class PythonBytes {
  public:
    // Raises TypeError for anything else.
    explicit PythonBytes(nanobind::handle object);
    PythonBytes(PythonBytes&& other) noexcept;
    PythonBytes(const PythonBytes&) = delete;
    PythonBytes& operator=(const PythonBytes&) = delete;
    PythonBytes& operator=(PythonBytes&&) = delete;
    ~PythonBytes();

    [[nodiscard]] Bytes get() const {
        return {static_cast<const std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

  private:
    Py_buffer view_{};
};

// Holds them for owners that may drop them without the GIL.
std::shared_ptr<const PythonBytes> share_bytes(nanobind::handle object);

// A path as the system takes it. Names that are not UTF-8 come as Python spells them, with surrogate escapes.
class PythonPath {
  public:
    explicit PythonPath(nanobind::str path);

    // A null character follows the path, and may also lie in it.
    [[nodiscard]] std::string_view get() const { return text_; }

  private:
    nanobind::object encoded_;  // An ASCII string is held itself, so nothing is allocated.
    std::string_view text_;
};

// The bytes of a Python object, in place, as long as `owner` lives. An array that shows them keeps the owner.
struct HeldBytes {
    nanobind::object owner;
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    bool writable = false;

    [[nodiscard]] Bytes get() const { return {data, size}; }
};

// Takes an object with the buffer protocol that holds contiguous bytes; raises TypeError or BufferError for anything
// else.
HeldBytes hold_bytes(nanobind::handle object);

}  // namespace spdl
