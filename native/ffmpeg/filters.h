#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "media/options.h"
#include "media/place.h"

namespace spdl {

// The filters between a decoder and the consumer of its frames: one input, one output, both pictures or both sound. One
// thread at a time. All errors are MediaErrors.
class FilterChain {
  public:
    // Makes the filters of `description`, which is in FFmpeg's own syntax, for frames like `first`. A frame rate of 0/1
    // is not known. Errors quote `whole`: the filters may be a part of it.
    FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description,
                const std::string& whole);
    FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description)
        : FilterChain(first, time_base, frame_rate, description, description) {}

    // Returns whether a frame has the form that the chain was made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const;

    // Puts in the next frame; null says that there are no more.
    void add(FramePtr frame);

    // Says that no more frames come, and that the last one ends at this time.
    void end(std::int64_t time);

    // Returns whether more frames would have no effect: the end was said, or a filter such as trim has ended.
    [[nodiscard]] bool full() const { return full_; }

    // Returns the next finished frame; null if none is ready, or after the end.
    FramePtr get();

    // Returns the unit of the finished frames' times.
    [[nodiscard]] AVRational time_base() const;

    // Returns how many finished frames there are in a second; 0/1 if that is not known.
    [[nodiscard]] AVRational frame_rate() const;

    // Returns the form of finished sound: a frame without samples.
    [[nodiscard]] FramePtr sound_form() const;

    // Returns the size of pictures after the first filter of a kind, such as "scale".
    [[nodiscard]] Size size_behind(const std::string& filter) const;

  private:
    void add_source(const AVFrame& first, AVRational time_base, AVRational frame_rate, const FfmpegLog& log);

    std::string what_;
    FilterGraphPtr graph_;
    AVFilterContext* source_ = nullptr;
    AVFilterContext* sink_ = nullptr;
    FramePtr form_;  // The first frame without its data.
    bool full_ = false;
};

// Runs one frame through the filters of `description`, which is in FFmpeg's own syntax. Throws MediaError.
FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description);

// Throws MediaError if a description cannot be understood. Whether its filters take the frames shows with the first
// one.
void check_filters(const std::string& description);

// A graph of filters for any number of frames. Its description names its inputs ("buffer", "abuffer" for sound) and
// outputs ("buffersink", "abuffersink"). Frames are shared with the graph, not copied, unless their memory is not
// libav's. Any number of threads may use it, one after the other.
class FrameGraph {
  public:
    // Throws MediaError if the description is not valid.
    explicit FrameGraph(const std::string& description);

    // Return the names of the ends in the graph, such as "buffer@in0", or "Parsed_buffer_0" for an end without a name.
    [[nodiscard]] const std::vector<std::string>& inputs() const { return input_names_; }
    [[nodiscard]] const std::vector<std::string>& outputs() const { return output_names_; }

    // Return whether an end is for sound, not for pictures.
    [[nodiscard]] bool takes_sound(std::size_t input) const { return inputs_[input].sound; }
    [[nodiscard]] bool gives_sound(std::size_t output) const { return outputs_[output].sound; }

    // Returns whether some filters are sources, which may never end.
    [[nodiscard]] bool has_sources() const { return has_sources_; }

    // A picture whose time is not after the last one's, as with images, becomes the next one. Throws MediaError if the
    // frame does not fit the description of the input, and if filters fail.
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
        // The earliest time of the next picture, or of sound without a time. None before the first.
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

// Returns FFmpeg's filters for these options, in the syntax in which get_video_filter_desc writes them.
std::string filter_description(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop);

// Returns a chain of filters with the name of every option, as FFmpeg reads it: "scale=224:224, format=rgb24" becomes
// "scale=w=224:h=224,format=pix_fmts=rgb24". An option has its shortest name, the options of one filter come in the
// order of its documentation, and texts that are the default are left out. Returns "" for a description that FFmpeg
// refuses, for a graph of more than one chain, and if a value holds a character that would have to be quoted.
std::string with_named_options(const std::string& description);

// Returns whether the first filter of a description makes RGB of all pictures, with alpha or without.
bool begins_with_rgb(const std::string& description);

}  // namespace spdl
