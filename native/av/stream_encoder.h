#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "av/encode_options.h"
#include "av/stream.h"
#include "ffmpeg/encoder_context.h"
#include "ffmpeg/libav.h"

namespace spdl {

// One of FFmpeg's encoders: frames go in, packets come out. One thread at a time. All errors are MediaErrors.
class StreamEncoder {
  public:
    // `configure` sets what the encoder must know of the frames. `global_header` puts what a decoder must know in front
    // of the file, not into packets.
    StreamEncoder(const AVCodec& encoder, Medium medium, const EncoderSettings& settings, bool global_header,
                  const std::function<void(AVCodecContext&)>& configure);

    // Takes the next frame, whose time is in units of the stream's time base, and appends the packets that are
    // finished.
    void add(FramePtr frame, std::vector<PacketPtr>& packets);

    // Says that no more frames come, and appends the rest of the packets. Does nothing the second time.
    void flush(std::vector<PacketPtr>& packets);

    // Throws if the encoder was flushed, and takes no more frames.
    void check_takes_more() const;

    // Returns the description of the stream that the packets belong to.
    [[nodiscard]] const std::shared_ptr<const Stream>& stream() const { return stream_; }

    [[nodiscard]] const AVCodecContext& context() const { return *context_; }

    // Returns the text for messages, such as "cannot encode with \"mpeg4\"".
    [[nodiscard]] const std::string& what() const { return what_; }

  private:
    void receive(std::vector<PacketPtr>& packets);

    std::string what_;
    EncoderContext context_;
    std::shared_ptr<const Stream> stream_;
    bool flushed_ = false;
};

}  // namespace spdl
