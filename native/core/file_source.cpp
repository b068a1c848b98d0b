#include "core/file_source.h"

namespace spdl {

FileSource::FileSource(std::string_view path) : file_(path), size_(kUnknown) {
    if (const auto size = file_.size()) {
        size_ = static_cast<std::int64_t>(*size);
    }
}

}  // namespace spdl
