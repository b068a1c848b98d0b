#include "ffmpeg/memory_input.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

namespace spdl {

MemoryInput::MemoryInput(Bytes bytes, int buffer_size) : bytes_(bytes) {
    auto* buffer = static_cast<unsigned char*>(av_malloc(static_cast<std::size_t>(buffer_size)));
    if (buffer != nullptr) {
        context_ = avio_alloc_context(buffer, buffer_size, 0, this, read, nullptr, seek);
    }
    if (context_ == nullptr) {
        av_free(buffer);
        throw std::bad_alloc();
    }
}

MemoryInput::~MemoryInput() {
    // libav may have replaced the buffer it was given.
    av_freep(&context_->buffer);
    avio_context_free(&context_);
}

int MemoryInput::read(void* self, std::uint8_t* into, int size) {
    auto& input = *static_cast<MemoryInput*>(self);
    const std::size_t count = std::min(static_cast<std::size_t>(size), input.bytes_.size() - input.position_);
    if (count == 0) {
        return AVERROR_EOF;
    }
    std::memcpy(into, input.bytes_.data() + input.position_, count);
    input.position_ += count;
    return static_cast<int>(count);
}

std::int64_t MemoryInput::seek(void* self, std::int64_t offset, int whence) {
    auto& input = *static_cast<MemoryInput*>(self);
    const auto size = static_cast<std::int64_t>(input.bytes_.size());
    switch (whence & ~AVSEEK_FORCE) {
        case AVSEEK_SIZE:
            return size;
        case SEEK_SET:
            break;
        case SEEK_CUR:
            offset += static_cast<std::int64_t>(input.position_);
            break;
        case SEEK_END:
            offset += size;
            break;
        default:
            return AVERROR(EINVAL);
    }
    if (offset < 0 || offset > size) {
        return AVERROR(EINVAL);
    }
    input.position_ = static_cast<std::size_t>(offset);
    return offset;
}

}  // namespace spdl
