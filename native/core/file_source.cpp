#include "core/file_source.h"

namespace spdl {

FileSource::FileSource(std::string_view path) : file_(path), size_(kUnknown) {
    if (const auto size = file_.size()) {
        size_ = static_cast<std::int64_t>(*size);
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

}  // namespace spdl
