#include "ffmpeg/input.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "core/interrupt.h"

namespace spdl {

Input::Input(ByteSource& source, int buffer_size) : source_(source), size_(source.size()) {
    auto* buffer = static_cast<unsigned char*>(av_malloc(static_cast<std::size_t>(buffer_size)));
    if (buffer != nullptr) {
        context_ = avio_alloc_context(buffer, buffer_size, 0, this, read, nullptr,
                                      size_ == ByteSource::kUnknown ? nullptr : seek);
    }
    if (context_ == nullptr) {
        av_free(buffer);
        throw std::bad_alloc();
    }
}

Input::~Input() {
    // libav may have replaced the buffer it was given.
    av_freep(&context_->buffer);
    avio_context_free(&context_);
}

void Input::rethrow() {
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

void Input::leave_out(bool contents) {
    if (contents == left_out_) {
        return;
    }
    left_out_ = contents;
    // What libav has read ahead is of the other kind. It seeks back only if it believes to be elsewhere.
    const std::int64_t place = avio_tell(context_);
    context_->buf_ptr = context_->buf_end = context_->buffer;
    context_->pos = place + 1;
    avio_seek(context_, place, SEEK_SET);
}

int Input::read(void* self, std::uint8_t* into, int size) {
    auto& input = *static_cast<Input*>(self);
    if (input.error_) {
        return AVERROR_EXTERNAL;
    }
    try {
        check_interrupt();
        std::size_t count = 0;
        if (input.left_out_) {
            count = static_cast<std::size_t>(std::min<std::int64_t>(size, input.size_ - input.position_));
            std::memset(into, 0, count);
        } else {
            count = input.source_.read(into, static_cast<std::size_t>(size));
        }
        input.position_ += static_cast<std::int64_t>(count);
        return count == 0 ? AVERROR_EOF : static_cast<int>(count);
    } catch (...) {
        // An exception must not pass through libav.
        input.error_ = std::current_exception();
        return AVERROR_EXTERNAL;
    }
}

std::int64_t Input::seek(void* self, std::int64_t offset, int whence) {
    auto& input = *static_cast<Input*>(self);
    switch (whence & ~AVSEEK_FORCE) {
        case AVSEEK_SIZE:
            return input.size_;
        case SEEK_SET:
            break;
        case SEEK_CUR:
            offset += input.position_;
            break;
        case SEEK_END:
            offset += input.size_;
            break;
        default:
            return AVERROR(EINVAL);
    }
    if (offset < 0 || offset > input.size_) {
        return AVERROR(EINVAL);
    }
    try {
        if (!input.left_out_) {
            input.source_.seek(offset);
        }
    } catch (...) {
        input.error_ = std::current_exception();
        return AVERROR_EXTERNAL;
    }
    input.position_ = offset;
    return offset;
}

}  // namespace spdl
