#pragma once

#include "core/byte_sink.h"

namespace spdl {

// A file that the caller has opened, and closes afterwards. All errors are MediaErrors. Interrupted calls go on, as
// on_interrupt says.
class FileSink final : public ByteSink {
  public:
    explicit FileSink(int descriptor);

    [[nodiscard]] bool can_seek() const override { return can_seek_; }
    void write(Bytes bytes) override;
    void seek(std::int64_t position) override;
    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override;

  private:
    int fd_;
    bool can_seek_;
};

}  // namespace spdl
