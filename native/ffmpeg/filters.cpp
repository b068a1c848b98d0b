#include "ffmpeg/filters.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "core/non_copyable.h"
#include "ffmpeg/frames.h"

namespace spdl {

namespace {

// Returns an empty graph of filters. If sound has other channels than a filter takes, FFmpeg inserts a filter that
// mixes them. For integers it divides by the sum of the weights, for floats it does not, so the gain would depend on
// the codec and on the types that filters agree on. Such filters of this graph always divide.
FilterGraphPtr make_filter_graph() {
    FilterGraphPtr graph(avfilter_graph_alloc());
    require_memory(graph && av_opt_set(graph.get(), "aresample_swr_opts", "rematrix_maxval=1", 0) >= 0);
    return graph;
}

// Returns the first filter in a description that the FFmpeg in use does not have; "" if it has them all.
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

// The ends that a description leaves open.
struct OpenEnds : NonCopyable {
    AVFilterInOut* inputs = nullptr;
    AVFilterInOut* outputs = nullptr;

    ~OpenEnds() {
        avfilter_inout_free(&inputs);
        avfilter_inout_free(&outputs);
    }
};

constexpr AVRational kImageTimeBase{1, 25};

bool is_sound(const AVFrame& frame) {
    return frame.nb_samples > 0;
}

FilterInOutPtr endpoint(AVFilterContext* filter, const char* label) {
    FilterInOutPtr point(avfilter_inout_alloc());
    require_memory(point != nullptr);
    point->name = av_strdup(label);
    point->filter_ctx = filter;
    require_memory(point->name != nullptr);
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
    require_memory(av_channel_layout_copy(&form->ch_layout, &frame.ch_layout) >= 0);
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
    require_memory(source_ != nullptr);
    struct FreeParameters {
        void operator()(AVBufferSrcParameters* parameters) const noexcept {
            av_channel_layout_uninit(&parameters->ch_layout);
            av_free(parameters);
        }
    };
    const std::unique_ptr<AVBufferSrcParameters, FreeParameters> parameters(av_buffersrc_parameters_alloc());
    require_memory(parameters && av_channel_layout_copy(&parameters->ch_layout, &first.ch_layout) >= 0);
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
    full_ = full_ || code == AVERROR_EOF;
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
    require_memory(av_buffersink_get_ch_layout(sink_, &form->ch_layout) >= 0);
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
    OpenEnds open;
    const int parsed = avfilter_graph_parse2(graph.get(), description.c_str(), &open.inputs, &open.outputs);
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

namespace {

constexpr const char* kRun = "cannot run";

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
    check_parsed(parsed, tried, description, log);
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
            what(kRun) + ": its input '" + input.filter->name + "' takes " +
            describe_picture(link.w, link.h, link.format) + ", but the frames are " +
            describe_picture(frame->width, frame->height, frame->format) +
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
    require_memory(av_channel_layout_copy(&frame->ch_layout, &link.ch_layout) >= 0);
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
    require_memory(text != nullptr);
    return text.get();
}

namespace {

std::string orientation_filters(const Orientation& orientation) {
    if (orientation.transposed) {
        // Each of these transposes, and then mirrors.
        const char* const direction = orientation.mirrored_x ? (orientation.mirrored_y ? "clock_flip" : "cclock")
                                                             : (orientation.mirrored_y ? "clock" : "cclock_flip");
        return std::string("transpose=dir=") + direction + ",";
    }
    return std::string(orientation.mirrored_x ? "hflip," : "") + (orientation.mirrored_y ? "vflip," : "");
}

const char* scale_flags(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kNearest:
            return "neighbor";
        case Interpolation::kArea:
            return "area";
        case Interpolation::kBilinear:
            return "bilinear";
        case Interpolation::kBicubic:
            return "bicubic";
        case Interpolation::kLanczos:
            break;
    }
    return "lanczos";
}

std::string sides(Size size) {
    return "=w=" + std::to_string(size.width) + ":h=" + std::to_string(size.height);
}

std::string scale_filters(const LoadOptions& options) {
    const Size target = options.target;
    if (target == Size{}) {
        return {};
    }
    // FFmpeg before 7 squeezes the levels of a gray picture into 16 to 235 when it scales it.
    const char* const range = options.format.channels() == Channels::kGray ? ":out_range=full" : "";
    // FFmpeg averages the colours of two pixels of RGB unless these flags forbid it. If the number of pixels is odd,
    // the last pair is the last pixel and whatever follows it in memory.
    const std::string scale = "scale" + sides(target) + ":flags=" + scale_flags(options.interpolation) +
                              "+accurate_rnd+full_chroma_int+full_chroma_inp" + range;
    if (options.fit == Fit::kStretch) {
        return scale + ",";
    }
    const bool open = target.width == 0 || target.height == 0;
    const std::string pad = ",pad" + sides(target) + ":x=-1:y=-1:color=black,";
    if (options.fit == Fit::kPad || open) {
        return scale + ":force_original_aspect_ratio=decrease" + (options.fit == Fit::kPad ? pad : ",");
    }
    return scale + ":force_original_aspect_ratio=increase,crop" + sides(target) + ",";
}

}  // namespace

std::string filter_description(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop) {
    std::string filters;
    if (!shape.orientation.upright() || crop.box != whole(shape.upright())) {
        // Formats with subsampled chroma would be cut and turned at every other pixel only.
        const Size size = crop.box.size();
        filters = "format=pix_fmts=rgb24," + orientation_filters(shape.orientation) + "crop" + sides(size) +
                  ":x=" + std::to_string(crop.box.left) + ":y=" + std::to_string(crop.box.top) + ",";
    }
    filters += scale_filters(options);
    if (options.center != Size{}) {
        filters += "crop" + sides(options.center) + ",";
    }
    if (options.flip != crop.flip) {
        filters += "hflip,";
    }
    return filters + "format=pix_fmts=" + pixel_format_name(options.format.channels());
}

namespace {

struct FreeText {
    void operator()(char* text) const noexcept { av_free(text); }
};
using Text = std::unique_ptr<char, FreeText>;

constexpr const char* kSpaces = " \n\t\r";

// What FFmpeg knows of the options of a filter.
class KnownOptions {
  public:
    explicit KnownOptions(const AVFilter& filter) : class_(filter.priv_class) {}

    // Returns the next option that is not an alias; null after the last. Null stands for the first.
    const AVOption* next(const AVOption* option) const {
        const AVOption* found = option;
        do {
            found = class_ == nullptr ? nullptr : av_opt_next(&class_, found);
        } while (found != nullptr &&
                 (found->type == AV_OPT_TYPE_CONST || (option != nullptr && found->offset == option->offset)));
        return found;
    }

    // Returns the first of the names for the same option; null if none exists.
    const AVOption* find(const std::string& name) const {
        for (const AVOption* option = next(nullptr); option != nullptr; option = next(option)) {
            for (const AVOption* each = option; each != nullptr; each = av_opt_next(&class_, each)) {
                if (each->type != AV_OPT_TYPE_CONST && each->offset == option->offset && name == each->name) {
                    return option;
                }
            }
        }
        return nullptr;
    }

    std::string shortest_name(const AVOption& option) const {
        std::string_view shortest = option.name;
        for (const AVOption* each = &option; each != nullptr; each = av_opt_next(&class_, each)) {
            const bool same = each->type != AV_OPT_TYPE_CONST && each->offset == option.offset;
            if (same && std::string_view(each->name).size() < shortest.size()) {
                shortest = each->name;
            }
        }
        return std::string(shortest);
    }

  private:
    const AVClass* class_;
};

bool is_default(const AVOption& option, const std::string& value) {
    const bool text = option.type == AV_OPT_TYPE_STRING || option.type == AV_OPT_TYPE_COLOR;
    return text && option.default_val.str != nullptr && value == option.default_val.str;
}

// Reads the options of a filter. As in FFmpeg, those without a name come first.
std::optional<std::map<const AVOption*, std::string>> read_options(const KnownOptions& known, const char* text) {
    std::map<const AVOption*, std::string> found;
    const AVOption* place = nullptr;
    bool nameless = true;
    while (*text != '\0') {
        place = nameless ? known.next(place) : nullptr;
        char* key = nullptr;
        char* value = nullptr;
        if (av_opt_get_key_value(&text, "=", ":", place != nullptr ? AV_OPT_FLAG_IMPLICIT_KEY : 0, &key, &value) < 0) {
            return std::nullopt;
        }
        const Text owned_key(key);
        const Text owned_value(value);
        text += *text != '\0' ? 1 : 0;
        nameless = nameless && key == nullptr;
        const AVOption* const option = key == nullptr ? place : known.find(key);
        if (option == nullptr || !found.emplace(option, value).second) {
            return std::nullopt;
        }
    }
    return found;
}

// Returns one filter; "" if it cannot be written.
std::string with_names(const std::string& name, const char* options) {
    const AVFilter* const filter = avfilter_get_by_name(name.c_str());
    if (filter == nullptr) {
        return "";
    }
    const KnownOptions known(*filter);
    const auto found = read_options(known, options);
    if (!found) {
        return "";
    }
    std::string text = name;
    char mark = '=';
    for (const AVOption* option = known.next(nullptr); option != nullptr; option = known.next(option)) {
        const auto given = found->find(option);
        if (given == found->end() || is_default(*option, given->second)) {
            continue;
        }
        if (given->second.find_first_of("'\\[];,:= \n\t\r") != std::string::npos) {
            return "";
        }
        text += mark + known.shortest_name(*option) + "=" + given->second;
        mark = ':';
    }
    return text;
}

// Reads the filter that a text begins with, and goes on to what follows it. Returns "" as with_names() does.
std::string next_filter(const char*& text) {
    const Text name(av_get_token(&text, "=,;["));
    const Text options(name && *text == '=' ? av_get_token(&++text, "[],;") : av_strdup(""));
    text += std::strspn(text, kSpaces);
    return name && options ? with_names(name.get(), options.get()) : "";
}

}  // namespace

std::string with_named_options(const std::string& description) {
    std::string chain;
    for (const char* rest = description.c_str();; ++rest) {
        const std::string filter = next_filter(rest);
        if (filter.empty()) {
            return "";
        }
        chain += (chain.empty() ? "" : ",") + filter;
        if (*rest != ',') {
            return rest == description.c_str() + description.size() ? chain : "";
        }
    }
}

bool begins_with_rgb(const std::string& description) {
    constexpr std::string_view kFormat = "format=pix_fmts=";
    const char* rest = description.c_str();
    const std::string filter = next_filter(rest);
    if (!filter.starts_with(kFormat)) {
        return false;
    }
    for (std::size_t begin = kFormat.size(), end = 0; end != std::string::npos; begin = end + 1) {
        end = filter.find('|', begin);
        const AVPixFmtDescriptor* const format =
            av_pix_fmt_desc_get(av_get_pix_fmt(filter.substr(begin, end - begin).c_str()));
        if (format == nullptr || (format->flags & AV_PIX_FMT_FLAG_RGB) == 0) {
            return false;
        }
    }
    return true;
}

}  // namespace spdl
