#include "ffmpeg/frame_graph.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/borrowed_frame.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/filter_graph.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

constexpr const char* kRun = "cannot run";

// The ends that a description leaves open.
struct OpenEnds {
    AVFilterInOut* inputs = nullptr;
    AVFilterInOut* outputs = nullptr;

    OpenEnds() = default;
    OpenEnds(const OpenEnds&) = delete;
    OpenEnds& operator=(const OpenEnds&) = delete;
    ~OpenEnds() {
        avfilter_inout_free(&inputs);
        avfilter_inout_free(&outputs);
    }
};

std::string describe(int width, int height, int format) {
    return std::to_string(width) + "x" + std::to_string(height) + " " + ffmpeg_format_name(format);
}

std::string describe_sound(int channels, int rate, int format) {
    const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(format));
    return std::to_string(channels) + " channels of " + (name == nullptr ? "unknown" : name) + " at " +
           std::to_string(rate) + " Hz";
}

std::string name_of(const AVFilterInOut& end) {
    return end.name != nullptr ? "[" + std::string(end.name) + "]" : "'" + std::string(end.filter_ctx->name) + "'";
}

}  // namespace

std::string FrameGraph::what(const char* tried) const {
    return std::string(tried) + " the filter graph \"" + description_ + "\"";
}

FrameGraph::FrameGraph(const std::string& description) : description_(description), graph_(make_filter_graph()) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    const std::string tried = what("cannot make");
    // Images and clips are filtered in parallel by the caller, one thread each.
    graph_->nb_threads = 1;
    OpenEnds open;
    const int parsed = avfilter_graph_parse2(graph_.get(), description.c_str(), &open.inputs, &open.outputs);
    if (parsed < 0) {
        if (const std::string name = missing_filter(description); !name.empty()) {
            throw MediaError(tried + ": there is no filter '" + name + "'. " + remedy_for_missing_part());
        }
        log.raise(tried, parsed);
    }
    if (open.inputs != nullptr) {
        throw MediaError(tried + ": nothing leads into " + name_of(*open.inputs) +
                         ": put a source there, as get_buffer_desc and get_abuffer_desc write it");
    }
    if (open.outputs != nullptr) {
        const bool sound =
            avfilter_pad_get_type(open.outputs->filter_ctx->output_pads, open.outputs->pad_idx) == AVMEDIA_TYPE_AUDIO;
        throw MediaError(tried + ": nothing leads out of " + name_of(*open.outputs) + ": put " +
                         (sound ? "an \"abuffersink\"" : "a \"buffersink\"") + " there");
    }
    find_ends();
    log.check(avfilter_graph_config(graph_.get(), nullptr), tried.c_str());
}

void FrameGraph::find_ends() {
    for (unsigned i = 0; i < graph_->nb_filters; ++i) {
        AVFilterContext* const filter = graph_->filters[i];
        const std::string_view kind = filter->filter->name;
        if (kind == "buffer" || kind == "abuffer") {
            inputs_.push_back({filter, kind == "abuffer", {}});
            input_names_.emplace_back(filter->name);
        } else if (kind == "buffersink" || kind == "abuffersink") {
            outputs_.push_back({filter, kind == "abuffersink"});
            output_names_.emplace_back(filter->name);
        } else if (filter->nb_inputs == 0) {
            has_sources_ = true;
        }
    }
    if (outputs_.empty()) {
        throw MediaError(what("cannot make") +
                         ": nothing leads out of it: end it with \"buffersink\", or \"abuffersink\" for sound");
    }
}

void FrameGraph::add(std::size_t input, const AVFrame& frame, AVRational time_base) {
    FramePtr shared = is_borrowed(frame) ? copy_frame(frame) : reference(frame);
    const std::scoped_lock lock(mutex_);
    if (flushed_) {
        throw MediaError(what(kRun) + ": it was flushed and takes no more frames; make another one");
    }
    Input& to = inputs_[input];
    if (to.sound) {
        add_sound(to, std::move(shared), time_base);
    } else {
        add_picture(to, std::move(shared), time_base);
    }
}

void FrameGraph::add_picture(Input& input, FramePtr frame, AVRational time_base) {
    const AVFilterLink& link = *input.filter->outputs[0];
    if (frame->width != link.w || frame->height != link.h || frame->format != link.format) {
        throw MediaError(
            what(kRun) + ": its input '" + input.filter->name + "' takes " + describe(link.w, link.h, link.format) +
            ", but the frames are " + describe(frame->width, frame->height, frame->format) +
            ": describe the input with get_buffer_desc(frames), or bring them into that form when they are "
            "decoded");
    }
    const bool timed = frame->pts != AV_NOPTS_VALUE && time_base.num > 0 && time_base.den > 0;
    std::int64_t time = input.next.value_or(0);
    if (timed) {
        const std::int64_t own = rescale_time(frame->pts, time_base, link.time_base);
        time = input.next ? std::max(own, *input.next) : own;
    }
    frame->pts = time;
    input.next = time + 1;
    put(input, *frame);
}

void FrameGraph::add_sound(Input& input, FramePtr frame, AVRational time_base) {
    const AVFilterLink& link = *input.filter->outputs[0];
    if (frame->sample_rate != link.sample_rate || frame->format != link.format ||
        frame->ch_layout.nb_channels != link.ch_layout.nb_channels) {
        throw MediaError(what(kRun) + ": its input '" + input.filter->name + "' takes " +
                         describe_sound(link.ch_layout.nb_channels, link.sample_rate, link.format) +
                         ", but the frames are " +
                         describe_sound(frame->ch_layout.nb_channels, frame->sample_rate, frame->format) +
                         ": describe the input with get_abuffer_desc(frames), or bring them into that form when they "
                         "are decoded");
    }
    // The names of the channels are the input's; their number is the same.
    av_channel_layout_uninit(&frame->ch_layout);
    if (av_channel_layout_copy(&frame->ch_layout, &link.ch_layout) < 0) {
        throw std::bad_alloc();
    }
    const bool timed = frame->pts != AV_NOPTS_VALUE && time_base.num > 0 && time_base.den > 0;
    frame->pts = timed ? rescale_time(frame->pts, time_base, link.time_base) : input.next.value_or(0);
    input.next = frame->pts + av_rescale_q(frame->nb_samples, {1, frame->sample_rate}, link.time_base);
    put(input, *frame);
}

void FrameGraph::put(const Input& input, AVFrame& frame) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    const int code = av_buffersrc_add_frame(input.filter, &frame);
    // A filter such as trim wants no more frames after its end.
    if (code != AVERROR_EOF) {
        log.check(code, what(kRun).c_str());
    }
}

std::optional<FrameGraph::Output> FrameGraph::get(std::size_t output) {
    FramePtr frame = make_frame();
    const std::scoped_lock lock(mutex_);
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    AVFilterContext* const sink = outputs_[output].filter;
    const int code = av_buffersink_get_frame(sink, frame.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
        return std::nullopt;
    }
    log.check(code, what(kRun).c_str());
    return Output{std::move(frame), av_buffersink_get_time_base(sink)};
}

void FrameGraph::flush() {
    const std::scoped_lock lock(mutex_);
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    if (flushed_) {
        return;
    }
    flushed_ = true;
    for (const Input& input : inputs_) {
        log.check(av_buffersrc_add_frame(input.filter, nullptr), what(kRun).c_str());
    }
}

std::string FrameGraph::dump() {
    struct FreeText {
        void operator()(char* text) const noexcept { av_free(text); }
    };
    const std::scoped_lock lock(mutex_);
    const std::unique_ptr<char, FreeText> text(avfilter_graph_dump(graph_.get(), nullptr));
    if (!text) {
        throw std::bad_alloc();
    }
    return text.get();
}

}  // namespace spdl
