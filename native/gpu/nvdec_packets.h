#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "av/bit_stream_filter.h"
#include "av/stream.h"
#include "cuda/nvcuvid.h"

namespace spdl {

// Returns NVDEC's name of a codec. Throws MediaError, which ends with the remedy, if it has none.
cuda::VideoCodec nvdec_codec(const Stream& stream, const char* remedy);

// Brings the packets of a video into the form that NVDEC reads: that of a stream without a container, which begins with
// the headers that containers keep apart.
class NvdecPackets {
  public:
    explicit NvdecPackets(std::shared_ptr<const Stream> stream);

    using Send = std::function<void(const cuda::VideoPacket& packet)>;

    // Passes on what becomes of a packet. It is valid during the call.
    void add(const AVPacket& packet, const Send& send);

    // Passes on the rest. Another video, or another place of it, may follow.
    void flush(const Send& send);

  private:
    void pass(const AVPacket& packet, const Send& send);

    std::shared_ptr<const Stream> stream_;
    std::unique_ptr<BitStreamFilter> filter_;
    std::vector<std::uint8_t> header_;  // Goes in front of the first packet.
    bool first_ = true;
};

}  // namespace spdl
