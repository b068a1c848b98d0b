#include "ffmpeg/filter_graph.h"

#include <cerrno>
#include <new>

#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {
namespace {

AVFilterContext* add_source(AVFilterGraph* graph, const AVFrame& frame, AVRational time_base, const FfmpegLog& log,
                            const char* what) {
    AVFilterContext* const source = avfilter_graph_alloc_filter(graph, avfilter_get_by_name("buffer"), "in");
    if (source == nullptr) {
        throw std::bad_alloc();
    }
    struct FreeParameters {
        void operator()(AVBufferSrcParameters* parameters) const noexcept { av_free(parameters); }
    };
    const std::unique_ptr<AVBufferSrcParameters, FreeParameters> parameters(av_buffersrc_parameters_alloc());
    if (!parameters) {
        throw std::bad_alloc();
    }
    parameters->format = frame.format;
    parameters->width = frame.width;
    parameters->height = frame.height;
    parameters->time_base = time_base;
    parameters->sample_aspect_ratio = frame.sample_aspect_ratio;
#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(9, 16, 100)
    // From FFmpeg 7 on the graph negotiates these, too, and warns if a frame differs from the announcement.
    parameters->color_space = frame.colorspace;
    parameters->color_range = frame.color_range;
#endif
    log.check(av_buffersrc_parameters_set(source, parameters.get()), what);
    log.check(avfilter_init_dict(source, nullptr), what);
    return source;
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

}  // namespace

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

FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description) {
    const FfmpegLog log(FfmpegLog::Kept::kFirst);
    const std::string what = "cannot apply the filter description \"" + description + "\"";
    const FilterGraphPtr graph(avfilter_graph_alloc());
    if (!graph) {
        throw std::bad_alloc();
    }
    graph->nb_threads = 1;
    if (time_base.num <= 0 || time_base.den <= 0) {
        time_base = {1, 25};
    }
    AVFilterContext* const source = add_source(graph.get(), frame, time_base, log, what.c_str());
    AVFilterContext* sink = nullptr;
    log.check(
        avfilter_graph_create_filter(&sink, avfilter_get_by_name("buffersink"), "out", nullptr, nullptr, graph.get()),
        what.c_str());

    // libavfilter names them from outside: the source is an output, which leads into the description's open start.
    FilterInOutPtr outputs = endpoint(source, "in");
    FilterInOutPtr inputs = endpoint(sink, "out");
    AVFilterInOut* open_inputs = inputs.release();
    AVFilterInOut* open_outputs = outputs.release();
    const int parsed = avfilter_graph_parse_ptr(graph.get(), description.c_str(), &open_inputs, &open_outputs, nullptr);
    avfilter_inout_free(&open_inputs);
    avfilter_inout_free(&open_outputs);
    if (parsed < 0) {
        if (const std::string name = missing_filter(description); !name.empty()) {
            throw MediaError(what + ": there is no filter '" + name + "'. " + remedy_for_missing_part());
        }
    }
    log.check(parsed, what.c_str());
    log.check(avfilter_graph_config(graph.get(), nullptr), what.c_str());

    const FramePtr input = reference(frame);
    if (input->pts == AV_NOPTS_VALUE) {
        input->pts = 0;
    }
    log.check(av_buffersrc_add_frame(source, input.get()), what.c_str());
    log.check(av_buffersrc_add_frame(source, nullptr), what.c_str());
    FramePtr output = make_frame();
    log.check(av_buffersink_get_frame(sink, output.get()), what.c_str());
    return output;
}

}  // namespace spdl
