#pragma once

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Lets libav read bytes in memory, in place.
class MemoryInput {
  public:
    MemoryInput(Bytes bytes, int buffer_size);
    ~MemoryInput();
    MemoryInput(const MemoryInput&) = delete;
    MemoryInput& operator=(const MemoryInput&) = delete;

    AVIOContext* context() { return context_; }

  private:
    static int read(void* self, std::uint8_t* into, int size);
    static std::int64_t seek(void* self, std::int64_t offset, int whence);

    Bytes bytes_;
    std::size_t position_ = 0;
    AVIOContext* context_ = nullptr;
};

}  // namespace spdl
