#pragma once

#include <memory>
#include <string>
#include <vector>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// FFmpeg's bit-stream filters, which change packets without decoding them. One thread at a time. All errors are
// MediaErrors.
class BitStreamFilter {
  public:
    // `description` is a list of filters in FFmpeg's own syntax.
    BitStreamFilter(std::shared_ptr<const Stream> stream, const std::string& description);

    // Takes a packet, and appends those that are finished.
    void add(PacketPtr packet, std::vector<PacketPtr>& finished);

    // Says that no more packets come, and appends the rest. After it the filter may begin again.
    void flush(std::vector<PacketPtr>& finished);

    // Returns the stream that the finished packets belong to.
    [[nodiscard]] std::shared_ptr<const Stream> output() const { return output_; }

  private:
    void receive(std::vector<PacketPtr>& finished);

    std::string what_;
    BsfContextPtr context_;
    std::shared_ptr<const Stream> output_;
};

}  // namespace spdl
