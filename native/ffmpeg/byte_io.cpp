#include "ffmpeg/byte_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "core/parallel.h"

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
    // libav's read-ahead bytes are of the other kind. It seeks back only if it believes to be elsewhere.
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

namespace {

constexpr int kBufferSize = 1 << 16;

template <typename Write>
AVIOContext* make_context(void* owner, bool write, int (*read)(void*, std::uint8_t*, int), Write write_packet,
                          std::int64_t (*seek)(void*, std::int64_t, int)) {
    auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferSize));
    AVIOContext* context = nullptr;
    if (buffer != nullptr) {
        context = avio_alloc_context(buffer, kBufferSize, write ? 1 : 0, owner, read, write_packet, seek);
    }
    if (context == nullptr) {
        av_free(buffer);
        throw std::bad_alloc();
    }
    return context;
}

void free_context(AVIOContext* context) {
    // libav may have replaced the buffer it was given.
    av_freep(&context->buffer);
    avio_context_free(&context);
}

// Returns the target of a libav seek; -1 if it is invalid.
std::int64_t target(std::int64_t offset, int whence, std::int64_t position, std::int64_t size) {
    switch (whence & ~AVSEEK_FORCE) {
        case SEEK_SET:
            return offset;
        case SEEK_CUR:
            return position + offset;
        case SEEK_END:
            return size + offset;
        default:
            return -1;
    }
}

}  // namespace

// Reads back from the output.
struct Output::Reader {
    Output& output;
    std::int64_t position = 0;
};

// Runs `work`, and keeps what it throws: an exception must not pass through libav.
template <typename Work>
int Output::guard(const Work& work) noexcept {
    if (error_) {
        return AVERROR_EXTERNAL;
    }
    try {
        return work();
    } catch (...) {
        error_ = std::current_exception();
        return AVERROR_EXTERNAL;
    }
}

Output::Output(ByteSink& sink) : sink_(sink) {
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    using Data = const std::uint8_t*;
#else
    using Data = std::uint8_t*;
#endif
    const auto write_packet = +[](void* self, Data data, int size) {
        auto& output = *static_cast<Output*>(self);
        return output.guard([&] { return output.write({data, static_cast<std::size_t>(size)}); });
    };
    const auto move =
        +[](void* self, std::int64_t offset, int whence) { return static_cast<Output*>(self)->seek(offset, whence); };
    context_ = make_context(this, true, nullptr, write_packet, sink.can_seek() ? move : nullptr);
}

Output::~Output() {
    free_context(context_);
}

int Output::write(Bytes bytes) {
    sink_.write(bytes);
    position_ += static_cast<std::int64_t>(bytes.size());
    size_ = std::max(size_, position_);
    return static_cast<int>(bytes.size());
}

std::int64_t Output::seek(std::int64_t offset, int whence) {
    if ((whence & AVSEEK_SIZE) != 0) {
        return size_;
    }
    const std::int64_t to = target(offset, whence, position_, size_);
    if (to < 0) {
        return AVERROR(EINVAL);
    }
    const int code = guard([&] {
        sink_.seek(to);
        return 0;
    });
    if (code < 0) {
        return code;
    }
    position_ = to;
    return to;
}

void Output::go_to_end() {
    if (position_ != size_) {
        sink_.seek(size_);
        position_ = size_;
    }
}

AVIOContext* Output::open_reader() {
    const auto read = +[](void* self, std::uint8_t* into, int size) {
        auto& reader = *static_cast<Reader*>(self);
        return reader.output.guard([&] {
            const std::size_t got =
                reader.output.sink_.read_back(reader.position, into, static_cast<std::size_t>(size));
            reader.position += static_cast<std::int64_t>(got);
            return got == 0 ? AVERROR_EOF : static_cast<int>(got);
        });
    };
    const auto move = +[](void* self, std::int64_t offset, int whence) -> std::int64_t {
        auto& reader = *static_cast<Reader*>(self);
        if ((whence & AVSEEK_SIZE) != 0) {
            return reader.output.size_;
        }
        const std::int64_t to = target(offset, whence, reader.position, reader.output.size_);
        if (to < 0) {
            return AVERROR(EINVAL);
        }
        reader.position = to;
        return to;
    };
    auto reader = std::make_unique<Reader>(Reader{*this});
    AVIOContext* const context = make_context(reader.get(), false, read, nullptr, move);
    static_cast<void>(reader.release());
    return context;
}

void Output::close_reader(AVIOContext* reader) {
    delete static_cast<Reader*>(reader->opaque);
    free_context(reader);
}

void Output::rethrow() {
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

}  // namespace spdl
