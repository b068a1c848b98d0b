#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ffmpeg/libav.h"

namespace spdl {

// A graph of filters whose description says itself where frames come in ("buffer") and go out ("buffersink"), for any
// number of frames. Frames are shared with it, not copied. Any number of threads may use it, one after the other.
class FrameGraph {
  public:
    // Throws MediaError where this is no such description.
    explicit FrameGraph(const std::string& description);

    // Their names in the graph, such as "buffer@in0", or "Parsed_buffer_0" for what has none of its own.
    [[nodiscard]] const std::vector<std::string>& inputs() const { return input_names_; }
    [[nodiscard]] const std::vector<std::string>& outputs() const { return output_names_; }

    // Frames whose time is not after the last one's, as that of images, are the next. Throws MediaError where the frame
    // is not what the input was said to take, and where filters fail.
    void add(std::size_t input, const AVFrame& frame, AVRational time_base);

    struct Output {
        FramePtr frame;
        AVRational time_base;
    };

    // Nothing where the graph has to be given more frames first, or has given them all.
    std::optional<Output> get(std::size_t output);

    // No more frames come.
    void flush();

    // A drawing of the graph, as libavfilter makes it.
    std::string dump();

  private:
    struct Input {
        AVFilterContext* filter;
        std::int64_t next = 0;  // The earliest time of the next frame.
    };

    [[nodiscard]] std::string what(const char* tried) const;
    void find_ends();

    std::string description_;
    FilterGraphPtr graph_;
    std::vector<Input> inputs_;
    std::vector<AVFilterContext*> outputs_;
    std::vector<std::string> input_names_;
    std::vector<std::string> output_names_;
    bool flushed_ = false;
    std::mutex mutex_;
};

}  // namespace spdl
