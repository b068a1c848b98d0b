#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ffmpeg/libav.h"

namespace spdl {

// A graph of filters for any number of frames. Its description names its inputs ("buffer", "abuffer" for sound) and
// outputs ("buffersink", "abuffersink"). Frames are shared with the graph, not copied, unless their memory is not
// libav's. Any number of threads may use it, one after the other.
class FrameGraph {
  public:
    // Throws MediaError if the description is not valid.
    explicit FrameGraph(const std::string& description);

    // Return the names of the ends in the graph, such as "buffer@in0", or "Parsed_buffer_0" for an end without a name
    // of its own.
    [[nodiscard]] const std::vector<std::string>& inputs() const { return input_names_; }
    [[nodiscard]] const std::vector<std::string>& outputs() const { return output_names_; }

    // Return whether an end is for sound, not for pictures.
    [[nodiscard]] bool takes_sound(std::size_t input) const { return inputs_[input].sound; }
    [[nodiscard]] bool gives_sound(std::size_t output) const { return outputs_[output].sound; }

    // Returns whether there are filters that make frames of their own, which may never end.
    [[nodiscard]] bool has_sources() const { return has_sources_; }

    // A picture whose time is not after that of the last one, as with images, becomes the next one. Throws MediaError
    // if the frame does not fit the description of the input, and if filters fail.
    void add(std::size_t input, const AVFrame& frame, AVRational time_base);

    struct Output {
        FramePtr frame;
        AVRational time_base;
    };

    // Returns nothing if the graph needs more frames first, or has no more to give.
    std::optional<Output> get(std::size_t output);

    // Tells the graph that no more frames come.
    void flush();

    // Returns a drawing of the graph, made by libavfilter.
    std::string dump();

  private:
    struct Input {
        AVFilterContext* filter;
        bool sound;
        // The earliest time of the next picture; that of sound without a time. None before the first.
        std::optional<std::int64_t> next;
    };

    struct Sink {
        AVFilterContext* filter;
        bool sound;
    };

    [[nodiscard]] std::string what(const char* tried) const;
    void find_ends();
    void add_picture(Input& input, FramePtr frame, AVRational time_base);
    void add_sound(Input& input, FramePtr frame, AVRational time_base);
    void put(const Input& input, AVFrame& frame);

    std::string description_;
    FilterGraphPtr graph_;
    std::vector<Input> inputs_;
    std::vector<Sink> outputs_;
    std::vector<std::string> input_names_;
    std::vector<std::string> output_names_;
    bool has_sources_ = false;
    bool flushed_ = false;
    std::mutex mutex_;
};

}  // namespace spdl
