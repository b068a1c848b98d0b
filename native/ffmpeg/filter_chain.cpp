#include "ffmpeg/filter_chain.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/filter_graph.h"

namespace spdl {
namespace {

constexpr AVRational kImageTimeBase{1, 25};

bool is_sound(const AVFrame& frame) {
    return frame.nb_samples > 0;
}

FilterInOutPtr endpoint(AVFilterContext* filter, const char* label) {
    FilterInOutPtr point(avfilter_inout_alloc());
    if (!point) {
        throw std::bad_alloc();
    }
    point->name = av_strdup(label);
    point->filter_ctx = filter;
    if (point->name == nullptr) {
        throw std::bad_alloc();
    }
    return point;
}

FramePtr form_of(const AVFrame& frame) {
    FramePtr form = make_frame();
    form->format = frame.format;
    form->width = frame.width;
    form->height = frame.height;
    form->nb_samples = frame.nb_samples;
    form->sample_rate = frame.sample_rate;
    form->colorspace = frame.colorspace;
    form->color_range = frame.color_range;
    if (av_channel_layout_copy(&form->ch_layout, &frame.ch_layout) < 0) {
        throw std::bad_alloc();
    }
    return form;
}

// Throws if libavfilter has not understood a description.
void check_parsed(int code, const std::string& what, const std::string& description, const FfmpegLog& log) {
    if (code >= 0) {
        return;
    }
    if (const std::string name = missing_filter(description); !name.empty()) {
        throw MediaError(what + ": there is no filter '" + name + "'. " + remedy_for_missing_part());
    }
    log.raise(what, code);
}

}  // namespace

FilterChain::FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate,
                         const std::string& description, const std::string& whole)
    : what_("cannot apply the filter description \"" + whole + "\""),
      graph_(make_filter_graph()),
      form_(form_of(first)) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    // The caller works in parallel, one thread for each image or clip.
    graph_->nb_threads = 1;
    if (time_base.num <= 0 || time_base.den <= 0) {
        time_base = kImageTimeBase;
    }
    add_source(first, time_base, frame_rate, log);
    const char* const sink = is_sound(first) ? "abuffersink" : "buffersink";
    log.check(avfilter_graph_create_filter(&sink_, avfilter_get_by_name(sink), "out", nullptr, nullptr, graph_.get()),
              what_.c_str());

    // libavfilter names them from outside: the source is an output, which leads into the description's open start.
    FilterInOutPtr outputs = endpoint(source_, "in");
    FilterInOutPtr inputs = endpoint(sink_, "out");
    AVFilterInOut* open_inputs = inputs.release();
    AVFilterInOut* open_outputs = outputs.release();
    const int parsed =
        avfilter_graph_parse_ptr(graph_.get(), description.c_str(), &open_inputs, &open_outputs, nullptr);
    avfilter_inout_free(&open_inputs);
    avfilter_inout_free(&open_outputs);
    check_parsed(parsed, what_, description, log);
    log.check(avfilter_graph_config(graph_.get(), nullptr), what_.c_str());
}

void FilterChain::add_source(const AVFrame& first, AVRational time_base, AVRational frame_rate, const FfmpegLog& log) {
    source_ =
        avfilter_graph_alloc_filter(graph_.get(), avfilter_get_by_name(is_sound(first) ? "abuffer" : "buffer"), "in");
    if (source_ == nullptr) {
        throw std::bad_alloc();
    }
    struct FreeParameters {
        void operator()(AVBufferSrcParameters* parameters) const noexcept {
            av_channel_layout_uninit(&parameters->ch_layout);
            av_free(parameters);
        }
    };
    const std::unique_ptr<AVBufferSrcParameters, FreeParameters> parameters(av_buffersrc_parameters_alloc());
    if (!parameters || av_channel_layout_copy(&parameters->ch_layout, &first.ch_layout) < 0) {
        throw std::bad_alloc();
    }
    parameters->format = first.format;
    parameters->width = first.width;
    parameters->height = first.height;
    parameters->sample_rate = first.sample_rate;
    parameters->time_base = time_base;
    parameters->frame_rate = frame_rate;
    parameters->sample_aspect_ratio = first.sample_aspect_ratio;
#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(9, 16, 100)
    // From FFmpeg 7 on the graph negotiates these, too, and warns if a frame differs from the announcement.
    parameters->color_space = first.colorspace;
    parameters->color_range = first.color_range;
#endif
    log.check(av_buffersrc_parameters_set(source_, parameters.get()), what_.c_str());
    log.check(avfilter_init_dict(source_, nullptr), what_.c_str());
}

bool FilterChain::takes(const AVFrame& frame) const {
    if (frame.format != form_->format || is_sound(frame) != is_sound(*form_)) {
        return false;
    }
    if (is_sound(frame)) {
        return frame.sample_rate == form_->sample_rate &&
               av_channel_layout_compare(&frame.ch_layout, &form_->ch_layout) == 0;
    }
    return frame.width == form_->width && frame.height == form_->height && frame.colorspace == form_->colorspace &&
           frame.color_range == form_->color_range;
}

void FilterChain::add(FramePtr frame) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    const int code = av_buffersrc_add_frame(source_, frame.get());
    // A filter such as trim wants no more frames after its end.
    full_ = full_ || !frame || code == AVERROR_EOF;
    if (code != AVERROR_EOF) {
        log.check(code, what_.c_str());
    }
}

void FilterChain::end(std::int64_t time) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    full_ = true;
    log.check(av_buffersrc_close(source_, time, AV_BUFFERSRC_FLAG_PUSH), what_.c_str());
}

FramePtr FilterChain::get() {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    FramePtr frame = make_frame();
    const int code = av_buffersink_get_frame(sink_, frame.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
        return nullptr;
    }
    log.check(code, what_.c_str());
    return frame;
}

AVRational FilterChain::time_base() const {
    return av_buffersink_get_time_base(sink_);
}

AVRational FilterChain::frame_rate() const {
    return av_buffersink_get_frame_rate(sink_);
}

FramePtr FilterChain::sound_form() const {
    FramePtr form = make_frame();
    form->format = av_buffersink_get_format(sink_);
    form->sample_rate = av_buffersink_get_sample_rate(sink_);
    if (av_buffersink_get_ch_layout(sink_, &form->ch_layout) < 0) {
        throw std::bad_alloc();
    }
    return form;
}

Size FilterChain::size_behind(const std::string& filter) const {
    for (unsigned i = 0; i < graph_->nb_filters; ++i) {
        const AVFilterContext& each = *graph_->filters[i];
        if (filter == each.filter->name) {
            return {each.outputs[0]->w, each.outputs[0]->h};
        }
    }
    return {};
}

void check_filters(const std::string& description) {
    if (description.empty()) {
        return;
    }
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    const FilterGraphPtr graph = make_filter_graph();
    AVFilterInOut* inputs = nullptr;
    AVFilterInOut* outputs = nullptr;
    const int parsed = avfilter_graph_parse2(graph.get(), description.c_str(), &inputs, &outputs);
    avfilter_inout_free(&inputs);
    avfilter_inout_free(&outputs);
    check_parsed(parsed, "cannot apply the filter description \"" + description + "\"", description, log);
}

FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description) {
    FilterChain chain(frame, time_base, {0, 1}, description);
    FramePtr input = reference(frame);
    if (input->pts == AV_NOPTS_VALUE) {
        input->pts = 0;
    }
    chain.add(std::move(input));
    chain.add(nullptr);
    FramePtr output = chain.get();
    if (!output) {
        throw MediaError("cannot apply the filter description \"" + description + "\": it lets no picture through");
    }
    return output;
}

// The FFmpeg log names the missing filter only if its options can be parsed without it. From FFmpeg 7 on, options
// without names cannot.
std::string missing_filter(const std::string& description) {
    std::size_t at = 0;
    while (at < description.size()) {
        while (description[at] == ' ' || description[at] == '[') {
            at = description[at] == '[' ? description.find(']', at) : at;
            if (at == std::string::npos || ++at == description.size()) {
                return "";
            }
        }
        const std::size_t end = description.find_first_of(" =@[],;", at);
        const std::string name = description.substr(at, end == std::string::npos ? end : end - at);
        // Options of the graph stand at its beginning.
        if (!name.empty() && name != "sws_flags" && avfilter_get_by_name(name.c_str()) == nullptr) {
            return name;
        }
        bool quoted = false;
        for (at += name.size(); at < description.size(); ++at) {
            if (description[at] == '\'') {
                quoted = !quoted;
            } else if (description[at] == '\\' && !quoted) {
                ++at;
            } else if (!quoted && (description[at] == ',' || description[at] == ';')) {
                break;
            }
        }
        ++at;
    }
    return "";
}

}  // namespace spdl
