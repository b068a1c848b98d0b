#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "core/byte_sink.h"
#include "ffmpeg/libav.h"

namespace spdl {

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

    // Goes to the end of what was written, so that whoever uses the sink next goes on there.
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
