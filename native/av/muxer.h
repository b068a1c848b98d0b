#pragma once

#include <memory>
#include <string>
#include <vector>

#include "av/packet_list.h"
#include "av/stream.h"
#include "core/byte_sink.h"
#include "ffmpeg/libav.h"
#include "ffmpeg/output.h"
#include "media/demux_options.h"

namespace spdl {

// A file of audio and video streams that is being written. One thread at a time. All errors are MediaErrors.
class Muxer {
  public:
    // `format` is FFmpeg's name of the file format; if it is "", `file_name` tells it by its suffix.
    Muxer(const std::string& format, const std::string& file_name);

    // Returns the description of the file format, by which encoders are chosen.
    [[nodiscard]] const AVOutputFormat& format() const { return *context_->oformat; }

    // Adds a stream for packets of such a stream, and returns its index. Not after open().
    int add_stream(const Stream& stream);

    // Throws if open() would not begin.
    void check_new() const;

    // Writes the beginning of the file. `options` are those of FFmpeg's muxer.
    void open(std::unique_ptr<ByteSink> sink, const OptionList& options);

    // Writes packets of one stream. They may be kept until those of other streams with earlier times have come.
    void write(int stream, const PacketList& packets);

    // Writes all packets that were kept.
    void flush();

    // Writes the end of the file. Without it the file is not complete.
    void close();

    [[nodiscard]] bool is_open() const { return state_ == State::kOpen; }

  private:
    enum class State { kNew, kOpen, kClosed };

    struct FreeOutput {
        void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
    };

    [[nodiscard]] std::string what() const;
    void check_open() const;

    std::unique_ptr<ByteSink> sink_;
    std::unique_ptr<Output> output_;
    std::unique_ptr<AVFormatContext, FreeOutput> context_;
    State state_ = State::kNew;
};

}  // namespace spdl
