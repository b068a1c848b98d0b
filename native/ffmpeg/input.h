#pragma once

#include <exception>

#include "core/byte_source.h"
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

}  // namespace spdl
