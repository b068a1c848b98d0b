#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "core/files.h"
#include "core/non_copyable.h"
#include "ffmpeg/libav.h"

namespace spdl {

// A context through which libav calls us. An exception of ours must not pass through libav, and is kept instead.
class LibavIo : NonCopyable {
  public:
    AVIOContext* context() { return context_; }

    // Throws what was kept. To be called when libav reports an error.
    void rethrow();

    // Returns whether rethrow() would throw.
    [[nodiscard]] bool failed() const { return error_ != nullptr; }

  protected:
    ~LibavIo();

    // Runs `work`, unless an exception is kept, and returns its result, or libav's number for an error.
    template <typename Work>
    auto guard(const Work& work) noexcept -> decltype(work());

    AVIOContext* context_ = nullptr;

  private:
    std::exception_ptr error_;
};

// Lets libav read from a source, which must live as long.
class Input : public LibavIo {
  public:
    Input(ByteSource& source, int buffer_size);

    // Says whether what is read from now on is not looked at. Then it is zeros, and nothing is read from the source.
    void leave_out(bool contents);
    [[nodiscard]] bool leaves_out() const { return left_out_; }

  private:
    int read(std::uint8_t* into, int size);
    std::int64_t seek(std::int64_t offset, int whence);

    ByteSource& source_;
    std::int64_t size_;
    std::int64_t position_ = 0;
    bool left_out_ = false;
};

// A context that is not open yet, which another function frees.
struct FreeUnopened {
    void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
};
using UnopenedPtr = std::unique_ptr<AVFormatContext, FreeUnopened>;

// Returns a context to open that reads from an input. It never opens another file or address, whatever the bytes name:
// playlists and similar files do, and their authors must not choose what is opened here.
UnopenedPtr make_context(Input& input);

// Returns FFmpeg's demuxer of that name. Throws MediaError if none exists, or if it does not read `bytes`.
const AVInputFormat& find_demuxer(const std::string& name, const char* bytes);

// Lets libav write to a sink, which must live as long, and read back what it wrote.
class Output : public LibavIo {
  public:
    explicit Output(ByteSink& sink);

    // Returns another context, which reads what was written. The caller frees it with close_reader.
    AVIOContext* open_reader();
    static void close_reader(AVIOContext* reader);

    // Goes to the end of the written data, so that the next user of the sink continues there.
    void go_to_end();

  private:
    struct Reader;

    int write(Bytes bytes);
    std::int64_t seek(std::int64_t offset, int whence);

    ByteSink& sink_;
    std::int64_t position_ = 0;
    std::int64_t size_ = 0;
};

}  // namespace spdl
