#include "ffmpeg/byte_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "core/errors.h"
#include "core/parallel.h"

namespace spdl {
namespace {

constexpr int kBufferSize = 1 << 16;

template <typename Write>
AVIOContext* make_context(void* owner, int buffer_size, bool write, int (*read)(void*, std::uint8_t*, int),
                          Write write_packet, std::int64_t (*seek)(void*, std::int64_t, int)) {
    auto* buffer = static_cast<unsigned char*>(av_malloc(static_cast<std::size_t>(buffer_size)));
    AVIOContext* context = nullptr;
    if (buffer != nullptr) {
        context = avio_alloc_context(buffer, buffer_size, write ? 1 : 0, owner, read, write_packet, seek);
    }
    if (context == nullptr) {
        av_free(buffer);
        throw std::bad_alloc();
    }
    return context;
}

void free_context(AVIOContext* context) {
    if (context != nullptr) {
        // libav may have replaced the buffer it was given.
        av_freep(&context->buffer);
        avio_context_free(&context);
    }
}

int refuse_to_open(AVFormatContext* context, AVIOContext** /*io*/, const char* /*url*/, int /*flags*/,
                   AVDictionary** /*options*/) {
    av_log(context, AV_LOG_ERROR, "the data names another file or address, which is never opened\n");
    return AVERROR(EACCES);
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

LibavIo::~LibavIo() {
    free_context(context_);
}

void LibavIo::rethrow() {
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

template <typename Work>
auto LibavIo::guard(const Work& work) noexcept -> decltype(work()) {
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

Input::Input(ByteSource& source, int buffer_size) : source_(source), size_(source.size()) {
    const auto read =
        +[](void* self, std::uint8_t* into, int size) { return static_cast<Input*>(self)->read(into, size); };
    const auto move =
        +[](void* self, std::int64_t offset, int whence) { return static_cast<Input*>(self)->seek(offset, whence); };
    context_ = make_context(this, buffer_size, false, read, nullptr, size_ == ByteSource::kUnknown ? nullptr : move);
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

int Input::read(std::uint8_t* into, int size) {
    return guard([&] {
        check_interrupt();
        std::size_t count = 0;
        if (left_out_) {
            count = static_cast<std::size_t>(std::min<std::int64_t>(size, size_ - position_));
            std::memset(into, 0, count);
        } else {
            count = source_.read(into, static_cast<std::size_t>(size));
        }
        position_ += static_cast<std::int64_t>(count);
        return count == 0 ? AVERROR_EOF : static_cast<int>(count);
    });
}

std::int64_t Input::seek(std::int64_t offset, int whence) {
    if ((whence & ~AVSEEK_FORCE) == AVSEEK_SIZE) {
        return size_;
    }
    const std::int64_t to = target(offset, whence, position_, size_);
    if (to < 0 || to > size_) {
        return AVERROR(EINVAL);
    }
    return guard([&] {
        if (!left_out_) {
            source_.seek(to);
        }
        return position_ = to;
    });
}

UnopenedPtr make_context(Input& input) {
    UnopenedPtr made(avformat_alloc_context());
    require_memory(made != nullptr);
    made->pb = input.context();
    made->flags |= AVFMT_FLAG_CUSTOM_IO;
    made->io_open = refuse_to_open;
    // Demuxers that open further demuxers pass on this list (of no protocol that exists), not the callback.
    made->protocol_whitelist = av_strdup("none");
    require_memory(made->protocol_whitelist != nullptr);
    return made;
}

const AVInputFormat& find_demuxer(const std::string& name, const char* bytes) {
    const AVInputFormat* const format = av_find_input_format(name.c_str());
    if (format == nullptr) {
        throw MediaError("FFmpeg has no demuxer \"" + name + "\". " + remedy_for_missing_part());
    }
    if ((format->flags & AVFMT_NOFILE) != 0) {
        throw MediaError("the demuxer \"" + name + "\" opens files by itself and cannot read " + bytes);
    }
    return *format;
}

// Reads back from the output.
struct Output::Reader {
    Output& output;
    std::int64_t position = 0;
};

Output::Output(ByteSink& sink) : sink_(sink) {
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    using Data = const std::uint8_t*;
#else
    using Data = std::uint8_t*;
#endif
    const auto write_packet = +[](void* self, Data data, int size) {
        return static_cast<Output*>(self)->write({data, static_cast<std::size_t>(size)});
    };
    const auto move =
        +[](void* self, std::int64_t offset, int whence) { return static_cast<Output*>(self)->seek(offset, whence); };
    context_ = make_context(this, kBufferSize, true, nullptr, write_packet, sink.can_seek() ? move : nullptr);
}

int Output::write(Bytes bytes) {
    return guard([&] {
        sink_.write(bytes);
        position_ += static_cast<std::int64_t>(bytes.size());
        size_ = std::max(size_, position_);
        return static_cast<int>(bytes.size());
    });
}

std::int64_t Output::seek(std::int64_t offset, int whence) {
    if ((whence & AVSEEK_SIZE) != 0) {
        return size_;
    }
    const std::int64_t to = target(offset, whence, position_, size_);
    return to < 0 ? AVERROR(EINVAL) : guard([&] {
        sink_.seek(to);
        return position_ = to;
    });
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
    AVIOContext* const context = make_context(reader.get(), kBufferSize, false, read, nullptr, move);
    static_cast<void>(reader.release());
    return context;
}

void Output::close_reader(AVIOContext* reader) {
    delete static_cast<Reader*>(reader->opaque);
    free_context(reader);
}

}  // namespace spdl
