#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "core/files.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Lets libav read from a source, which must live as long.
class Input {
  public:
    Input(ByteSource& source, int buffer_size);
    ~Input();
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;

    AVIOContext* context() { return context_; }

    // Says whether what is read from now on is not looked at. Then it is zeros, and nothing is read from the source.
    void leave_out(bool contents);
    [[nodiscard]] bool leaves_out() const { return left_out_; }

    // Throws what the source threw when libav read from it. To be called when libav reports an error.
    void rethrow();

    // Returns whether rethrow() would throw.
    [[nodiscard]] bool failed() const { return error_ != nullptr; }

  private:
    static int read(void* self, std::uint8_t* into, int size);
    static std::int64_t seek(void* self, std::int64_t offset, int whence);

    ByteSource& source_;
    std::int64_t size_;
    std::int64_t position_ = 0;
    bool left_out_ = false;
    std::exception_ptr error_;
    AVIOContext* context_ = nullptr;
};

// Lets libav write to a sink, which must live as long, and read back what it wrote.
class Output {
  public:
    explicit Output(ByteSink& sink);
    ~Output();
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    AVIOContext* context() { return context_; }

    // Returns another context, which reads what was written. The caller frees it with close_reader.
    AVIOContext* open_reader();
    static void close_reader(AVIOContext* reader);

    // Goes to the end of the written data, so that the next user of the sink continues there.
    void go_to_end();

    // Throws what the sink threw when libav wrote to it. To be called when libav reports an error.
    void rethrow();

  private:
    struct Reader;

    template <typename Work>
    int guard(const Work& work) noexcept;

    int write(Bytes bytes);
    std::int64_t seek(std::int64_t offset, int whence);

    ByteSink& sink_;
    std::int64_t position_ = 0;
    std::int64_t size_ = 0;
    std::exception_ptr error_;
    AVIOContext* context_ = nullptr;
};

}  // namespace spdl
