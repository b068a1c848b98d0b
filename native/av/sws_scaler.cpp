#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <utility>

#include "av/scaling.h"
#include "core/errors.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"

namespace spdl {

namespace {

int scaling_flag(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kNearest:
            return SWS_POINT;
        case Interpolation::kArea:
            return SWS_AREA;
        case Interpolation::kBilinear:
            return SWS_BILINEAR;
        case Interpolation::kBicubic:
            return SWS_BICUBIC;
        case Interpolation::kLanczos:
            break;
    }
    return SWS_LANCZOS;
}

}  // namespace

SwsContextPtr make_scaling_context(const AVFrame& like, Size size, AVPixelFormat format, Interpolation interpolation) {
    SwsContextPtr context(sws_alloc_context());
    require_memory(context != nullptr);
    const auto set = [&](const char* option, int value) { av_opt_set_int(context.get(), option, value, 0); };
    set("srcw", like.width);
    set("srch", like.height);
    set("src_format", like.format);
    set("dstw", size.width);
    set("dsth", size.height);
    set("dst_format", format);
    set("sws_flags", scaling_flag(interpolation));
    if (like.format == AV_PIX_FMT_YUV420P) {
        // MPEG-2's place of chroma: halfway between two rows.
        set("src_v_chr_pos", 128);
    }
    // Planes that stay what they are keep their levels.
    if (format != like.format) {
        follow_colors(*context, like);
    }
    if (sws_init_context(context.get(), nullptr, nullptr) < 0) {
        return nullptr;
    }
    return context;
}

namespace {

constexpr int kMostRows = 128;  // That the second pass adds up.

int half(int size) {
    return (size + 1) / 2;
}

void reserve(SwsScaler::Scratch& scratch, std::size_t size) {
    if (scratch.size() < size) {
        scratch.resize(size);
    }
}

// The scalers that were used last. Most folders have videos of a few sizes.
class Known {
  public:
    using Scaler = std::shared_ptr<const SwsScaler>;

    std::optional<Scaler> find(const SwsScaler::Form& form) {
        // This does not wait for the lock: in a forked child it might never be unlocked.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) {
            return std::nullopt;
        }
        const auto found = std::ranges::find(scalers_, form, [](const auto& entry) { return entry.first; });
        if (found == scalers_.end()) {
            return std::nullopt;
        }
        scalers_.splice(scalers_.begin(), scalers_, found);
        return found->second;
    }

    std::vector<std::pair<SwsScaler::Form, bool>> all() {
        const std::scoped_lock lock(mutex_);
        std::vector<std::pair<SwsScaler::Form, bool>> found;
        for (const auto& [form, scaler] : scalers_) {
            found.emplace_back(form, scaler != nullptr);
        }
        return found;
    }

    void add(const SwsScaler::Form& form, const Scaler& scaler) {
        constexpr std::size_t kMost = 64;
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock) {
            scalers_.emplace_front(form, scaler);
            if (scalers_.size() > kMost) {
                scalers_.pop_back();
            }
        }
    }

  private:
    std::mutex mutex_;
    std::list<std::pair<SwsScaler::Form, Scaler>> scalers_;
};

// Never destroyed: threads may outlive the process's static objects.
Known& known_scalers() {
    static Known* const instance = new Known;
    return *instance;
}

// As libswscale computes its tables, see SwsYuvColors.
SwsYuvColors colors_of(const AVFrame& like) {
    const SwsContextPtr context =
        make_scaling_context(like, {like.width, like.height + 2}, AV_PIX_FMT_RGB24, Interpolation::kBilinear);
    int* matrix = nullptr;
    int* unused = nullptr;
    int full = 0;
    int numbers[4] = {};
    if (!context || sws_getColorspaceDetails(context.get(), &matrix, &full, &unused, &numbers[0], &numbers[1],
                                             &numbers[2], &numbers[3]) < 0) {
        return {};
    }
    constexpr std::int64_t kOne = 1 << 16;
    const std::int64_t slope = full != 0 ? kOne : kOne * 255 / 219;
    const auto shift = [&](std::int64_t weight) {
        const std::int64_t used = full != 0 ? weight * 224 / 255 : weight;
        return static_cast<std::int32_t>((used * kOne + kOne / 2) / slope);
    };
    // Black is 16 of 255, and the tables begin at a whole number of levels below.
    const std::int64_t start = full != 0 ? kOne / 2 : kOne / 2 - (384 + 16) * kOne + 326 * slope;
    return {static_cast<std::int32_t>(slope),
            static_cast<std::int32_t>(start),
            shift(matrix[0]),
            shift(-matrix[2]),
            shift(-matrix[3]),
            shift(matrix[1])};
}

}  // namespace

std::optional<SwsScaler::Form> SwsScaler::form_of(const AVFrame& like, Size to, AVPixelFormat to_format,
                                                  Interpolation interpolation) {
    const bool yuv = like.format == AV_PIX_FMT_YUV420P || like.format == AV_PIX_FMT_YUVJ420P;
    const Size from{like.width, like.height};
    // libswscale goes other ways to RGB if the width is odd, or if nothing is scaled.
    const bool to_rgb = to_format == AV_PIX_FMT_RGB24 && to.width % 2 == 0 && from.height != to.height;
    // FFmpeg's filter makes limited range of full range where the format does not say it.
    const bool to_same = to_format == like.format && from != to &&
                         (like.format == AV_PIX_FMT_YUVJ420P || like.color_range != AVCOL_RANGE_JPEG);
    if (!yuv || !(to_rgb || to_same) || sws_kernels() == nullptr || to.width < 2 || to.height < 1 ||
        interpolation == Interpolation::kNearest) {
        return std::nullopt;
    }
    const auto format = static_cast<AVPixelFormat>(like.format);
    return Form{from, to, format, to_format, like.colorspace, like.color_range, interpolation};
}

std::optional<std::shared_ptr<const SwsScaler>> SwsScaler::known(const Form& form) {
    return known_scalers().find(form);
}

std::vector<std::pair<SwsScaler::Form, bool>> SwsScaler::all_known() {
    return known_scalers().all();
}

std::shared_ptr<const SwsScaler> SwsScaler::make(const Form& form) {
    std::shared_ptr<SwsScaler> made(new SwsScaler(form));
    if (!made->prepare() || !scales_as_libswscale(*made)) {
        made.reset();
    }
    known_scalers().add(form, made);
    return made;
}

bool SwsScaler::prepare() {
    const auto read = [&](ScalingAxis axis, int inputs, int outputs, int multiple, ScalingWeights& weights) {
        auto found = read_scaling_weights(axis, inputs, outputs, form_.interpolation, multiple);
        if (found) {
            weights = *std::move(found);
        }
        return found.has_value();
    };
    const auto pack = [](SwsRowWeights& weights, int inputs) {
        weights.inputs = inputs;
        sws_kernels()->pack(weights);
    };
    const Size from = form_.from;
    const Size to = form_.to;
    const bool rgb = form_.to_format == AV_PIX_FMT_RGB24;
    if (!read(ScalingAxis::kHorizontal, from.width, to.width, 8, across_.luma.plain) ||
        !read(ScalingAxis::kHorizontal, half(from.width), half(to.width), 8, across_.chroma.plain) ||
        !read(ScalingAxis::kVertical, from.height, to.height, 2, down_.luma) ||
        !read(ScalingAxis::kVertical, half(from.height), rgb ? to.height : half(to.height), 2, down_.chroma)) {
        return false;
    }
    if (std::max(across_.luma.plain.taps, across_.chroma.plain.taps) > kMostSwsTaps ||
        std::max(down_.luma.taps, down_.chroma.taps) > kMostRows) {
        return false;
    }
    pack(across_.luma, from.width);
    pack(across_.chroma, half(from.width));
    if (!rgb) {
        return true;
    }
    const FramePtr like = make_frame();
    like->format = form_.format;
    like->width = from.width;
    like->height = from.height;
    like->colorspace = form_.matrix;
    like->color_range = form_.range;
    colors_ = colors_of(*like);
    return colors_.slope != 0;
}

void SwsScaler::scale(const AVFrame& frame, const Box& part, AVFrame& to, int x, int y, Scratch& scratch) const {
    const auto place = [&](int plane, int column, int row) {
        return to.data[plane] + static_cast<std::ptrdiff_t>(row) * to.linesize[plane] + column;
    };
    if (form_.to_format == AV_PIX_FMT_RGB24) {
        make_rgb(frame, part, place(0, 3 * x, y), to.linesize[0], scratch);
        return;
    }
    const Box chroma{part.left / 2, part.top / 2, half(part.right), half(part.bottom)};
    make_plane(frame, 0, part, place(0, x, y), to.linesize[0], scratch);
    make_plane(frame, 1, chroma, place(1, x / 2, y / 2), to.linesize[1], scratch);
    make_plane(frame, 2, chroma, place(2, x / 2, y / 2), to.linesize[2], scratch);
}

void SwsScaler::make_plane(const AVFrame& frame, int plane, const Box& part, std::uint8_t* to, std::ptrdiff_t stride,
                           Scratch& scratch) const {
    const SwsRowWeights& across = plane == 0 ? across_.luma : across_.chroma;
    const ScalingWeights& down = plane == 0 ? down_.luma : down_.chroma;
    reserve(scratch, SwsRing::size(1, down, part.left, part.right));
    SwsRing rows(frame, plane, 1, across, down, part.left, part.right, scratch.data());
    // libswscale adds half a level, and what the products lose on average.
    const int start = (64 + 8 * (down.used - 1)) >> 4;
    // It computes the last rows in another way: two of luma, and one of chroma.
    const int outputs = static_cast<int>(down.first.size());
    const int last = outputs - (plane == 0 ? 2 : 1);
    const std::int16_t* in[kMostRows];
    for (int y = part.top; y < part.bottom; ++y) {
        rows.prepare(y, in);
        const auto mix = y < last ? sws_kernels()->mix_plane : sws_kernels()->round_plane;
        mix(in, rows.weights(y), down.taps, start, part.right - part.left, to + (y - part.top) * stride);
    }
}

void SwsScaler::make_rgb(const AVFrame& frame, const Box& part, std::uint8_t* to, std::ptrdiff_t stride,
                         Scratch& scratch) const {
    // Two pixels share their chroma, so columns come in pairs.
    const int left = part.left / 2 * 2;
    const int right = (part.right + 1) / 2 * 2;
    const int width = right - left;
    const std::size_t luma_size = SwsRing::size(1, down_.luma, left, right);
    const std::size_t chroma_size = SwsRing::size(2, down_.chroma, left / 2, right / 2);
    const std::size_t row_size = 3 * (static_cast<std::size_t>(width) + kSwsRowSlack);
    // One row of packed pixels is at the end.
    reserve(scratch, luma_size + chroma_size + row_size + row_size / 2);
    SwsRing luma(frame, 0, 1, across_.luma, down_.luma, left, right, scratch.data());
    SwsRing chroma(frame, 1, 2, across_.chroma, down_.chroma, left / 2, right / 2, scratch.data() + luma_size);
    std::int16_t* const mixing = scratch.data() + luma_size + chroma_size;
    auto* const packed = reinterpret_cast<std::uint8_t*>(mixing + row_size);
    const std::int16_t* y_rows[kMostRows];
    const std::int16_t* uv_rows[2 * kMostRows];
    for (int y = part.top; y < part.bottom; ++y) {
        luma.prepare(y, y_rows);
        chroma.prepare(y, uv_rows);
        const SwsRowsIn in{
            y_rows,           luma.weights(y), down_.luma.taps, uv_rows, uv_rows + down_.chroma.taps, chroma.weights(y),
            down_.chroma.taps};
        std::uint8_t* const row = to + (y - part.top) * stride;
        if (width == part.right - part.left) {
            sws_kernels()->mix(in, colors_, width, mixing, row);
        } else {
            sws_kernels()->mix(in, colors_, width, mixing, packed);
            std::memcpy(row, packed + 3 * (part.left - left), static_cast<std::size_t>(3 * (part.right - part.left)));
        }
    }
}

namespace {

FramePtr make_picture(AVPixelFormat format, Size size) {
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    require_memory(av_frame_get_buffer(frame.get(), 0) >= 0);
    return frame;
}

// Half of it noise, half of it black or white: filters with negative weights then leave the range of bytes.
FramePtr make_noise(const SwsScaler::Form& form) {
    FramePtr frame = make_picture(form.format, form.from);
    frame->colorspace = form.matrix;
    frame->color_range = form.range;
    std::uint32_t state = 1;
    const auto next = [&state] {
        state = state * 1664525U + 1013904223U;
        return state >> 16;
    };
    for (int plane = 0; plane < 3; ++plane) {
        const int width = plane == 0 ? form.from.width : half(form.from.width);
        const int height = plane == 0 ? form.from.height : half(form.from.height);
        for (int y = 0; y < height; ++y) {
            std::uint8_t* const row = frame->data[plane] + static_cast<std::ptrdiff_t>(y) * frame->linesize[plane];
            for (int x = 0; x < width; ++x) {
                const std::uint32_t drawn = next();
                row[x] = static_cast<std::uint8_t>((drawn & 0x100U) != 0 ? drawn : (drawn & 1U) != 0 ? 255 : 0);
            }
        }
    }
    return frame;
}

bool same_rows(const AVFrame& a, const AVFrame& b, int plane, int bytes, int rows) {
    for (int y = 0; y < rows; ++y) {
        if (std::memcmp(a.data[plane] + static_cast<std::ptrdiff_t>(y) * a.linesize[plane],
                        b.data[plane] + static_cast<std::ptrdiff_t>(y) * b.linesize[plane],
                        static_cast<std::size_t>(bytes)) != 0) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool scales_as_libswscale(const SwsScaler& scaler) {
    const SwsScaler::Form& form = scaler.form();
    const FramePtr noise = make_noise(form);
    const FramePtr expected = make_picture(form.to_format, form.to);
    const FramePtr found = make_picture(form.to_format, form.to);
    const SwsContextPtr context = make_scaling_context(*noise, form.to, form.to_format, form.interpolation);
    if (!context || sws_scale(context.get(), noise->data, noise->linesize, 0, form.from.height, expected->data,
                              expected->linesize) != form.to.height) {
        return false;
    }
    SwsScaler::Scratch scratch;
    scaler.scale(*noise, whole(form.to), *found, 0, 0, scratch);
    if (form.to_format == AV_PIX_FMT_RGB24) {
        return same_rows(*found, *expected, 0, form.to.width * 3, form.to.height);
    }
    const Size chroma{half(form.to.width), half(form.to.height)};
    return same_rows(*found, *expected, 0, form.to.width, form.to.height) &&
           same_rows(*found, *expected, 1, chroma.width, chroma.height) &&
           same_rows(*found, *expected, 2, chroma.width, chroma.height);
}

const SwsScaler* FastScaling::find(const std::optional<SwsScaler::Form>& form) {
    // To make a scaler costs about what it saves in that many pictures.
    constexpr int kWorthIt = 8;
    if (!form) {
        return nullptr;
    }
    if (form_ != form) {
        form_ = form;
        came_ = 0;
        const auto known = SwsScaler::known(*form);
        decided_ = known.has_value();
        scaler_ = known.value_or(nullptr);
    }
    if (!decided_ && ++came_ > kWorthIt) {
        scaler_ = SwsScaler::make(*form);
        decided_ = true;
    }
    return scaler_.get();
}

namespace {

bool same_form(const AVFrame& a, const AVFrame& b) {
    return a.width == b.width && a.height == b.height && a.format == b.format && a.colorspace == b.colorspace &&
           a.color_range == b.color_range;
}

}  // namespace

void VideoScaler::prepare(const AVFrame& frame, Size size, AVPixelFormat format, Interpolation interpolation) {
    const bool fits = scaled_ && Size{scaled_->width, scaled_->height} == size && scaled_->format == format;
    if (context_ && fits && same_form(*form_, frame) && interpolation_ == interpolation) {
        return;
    }
    form_ = make_frame();
    context_ = make_scaling_context(frame, size, format, interpolation);
    if (!context_) {
        throw MediaError(std::string("cannot scale and convert the pixel format \"") +
                         ffmpeg_format_name(frame.format) + "\" to " + ffmpeg_format_name(format));
    }
    form_->width = frame.width;
    form_->height = frame.height;
    form_->format = frame.format;
    form_->colorspace = frame.colorspace;
    form_->color_range = frame.color_range;
    interpolation_ = interpolation;
    if (!fits) {
        scaled_ = make_frame();
        scaled_->width = size.width;
        scaled_->height = size.height;
        scaled_->format = format;
        if (const int code = av_frame_get_buffer(scaled_.get(), 0); code < 0) {
            scaled_.reset();
            if (code == AVERROR(ENOMEM)) {
                throw std::bad_alloc();
            }
            throw MediaError("cannot scale the picture to " + std::to_string(size.width) + "x" +
                             std::to_string(size.height) + ": FFmpeg takes no picture of this size");
        }
    }
}

const AVFrame& VideoScaler::scale(const AVFrame& frame, Size size, Channels channels, Interpolation interpolation) {
    const FfmpegLog log;
    const AVPixelFormat format = packed_format(channels);
    if (frame.format == format && Size{frame.width, frame.height} == size) {
        return frame;
    }
    prepare(frame, size, format, interpolation);
    log.check(sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, scaled_->data, scaled_->linesize),
              "cannot scale the picture");
    return *scaled_;
}

namespace {

// Pictures of 8 bits become such of 16. A picture of kGround stays unchanged; a single row or column of kPulse shows
// its weight wherever it has one. The steps are such that every result tells the weight exactly: the sums are of 14
// bits and 12, and lose 3 bits and 15.
constexpr int kGround = 128;
constexpr int kPulse = 192;
constexpr int kGroundResult = kGround << 8;
constexpr int kHorizontalStep = 1;
constexpr int kVerticalStep = 4;
constexpr int kHorizontalSum = 1 << 14;
constexpr int kVerticalSum = 1 << 12;

// Every so manieth row or column is a pulse, so that no output sees two: filters reach 3 inputs to either side, or
// outputs if these are farther apart.
int distance(int inputs, int outputs) {
    constexpr int kReach = 6;
    constexpr int kMore = 8;
    return static_cast<int>(std::ceil(std::max(1.0, static_cast<double>(inputs) / outputs) * kReach)) + kMore;
}

// Pictures with pulses at all places: line k has them at k and every distance() on. A line lies along the axis.
class Probe {
  public:
    Probe(ScalingAxis axis, int inputs, int outputs)
        : horizontal_(axis == ScalingAxis::kHorizontal),
          inputs_(inputs),
          outputs_(outputs),
          lines_(distance(inputs, outputs)),
          in_(static_cast<std::size_t>(inputs) * static_cast<std::size_t>(lines_), kGround),
          out_(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(lines_)) {
        for (int line = 0; line < lines_; ++line) {
            for (int at = line; at < inputs; at += lines_) {
                in_[index(at, line, inputs)] = kPulse;
            }
        }
    }

    [[nodiscard]] int lines() const { return lines_; }

    bool scale(Interpolation interpolation) {
        const FramePtr like = make_frame();
        like->format = AV_PIX_FMT_GRAY8;
        like->color_range = AVCOL_RANGE_JPEG;
        like->width = horizontal_ ? inputs_ : lines_;
        like->height = horizontal_ ? lines_ : inputs_;
        const Size size = horizontal_ ? Size{outputs_, lines_} : Size{lines_, outputs_};
        const SwsContextPtr context = make_scaling_context(*like, size, AV_PIX_FMT_GRAY16, interpolation);
        if (!context) {
            return false;
        }
        const std::uint8_t* const from[4] = {in_.data()};
        std::uint8_t* const to[4] = {reinterpret_cast<std::uint8_t*>(out_.data())};
        const int from_stride[4] = {like->width};
        const int to_stride[4] = {size.width * 2};
        return sws_scale(context.get(), from, from_stride, 0, like->height, to, to_stride) == size.height;
    }

    // Returns the weight of the pulse of a line in an output; nothing if the result is not one of a weight.
    [[nodiscard]] std::optional<int> weight(int output, int line) const {
        const int found = out_[index(output, line, outputs_)] - kGroundResult;
        const int step = horizontal_ ? kHorizontalStep : kVerticalStep;
        if (found % step != 0) {
            return std::nullopt;
        }
        return found / step;
    }

  private:
    [[nodiscard]] std::size_t index(int at, int line, int along) const {
        const auto [row, column, width] = horizontal_ ? std::tuple(line, at, along) : std::tuple(at, line, lines_);
        return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
    }

    bool horizontal_;
    int inputs_;
    int outputs_;
    int lines_;
    std::vector<std::uint8_t> in_;
    std::vector<std::uint16_t> out_;
};

struct Tap {
    int input;
    int weight;
};

// Returns the taps of an output in the order of their inputs; none if they make no sense.
std::vector<Tap> taps_of(const Probe& probe, int output, int inputs, int outputs, int sum) {
    const int lines = probe.lines();
    const double center = (output + 0.5) * inputs / outputs - 0.5;
    const int first = static_cast<int>(std::floor(center)) - lines / 2 + 1;
    std::vector<Tap> taps;
    int total = 0;
    for (int input = first; input < first + lines; ++input) {
        const auto weight = probe.weight(output, ((input % lines) + lines) % lines);
        if (!weight || (*weight != 0 && (input < 0 || input >= inputs))) {
            return {};
        }
        if (*weight != 0) {
            taps.push_back({input, *weight});
            total += *weight;
        }
    }
    return total == sum ? taps : std::vector<Tap>();
}

}  // namespace

std::optional<ScalingWeights> read_scaling_weights(ScalingAxis axis, int inputs, int outputs,
                                                   Interpolation interpolation, int multiple) {
    Probe probe(axis, inputs, outputs);
    if (inputs < probe.lines() || !probe.scale(interpolation)) {
        return std::nullopt;
    }
    const int sum = axis == ScalingAxis::kHorizontal ? kHorizontalSum : kVerticalSum;
    std::vector<std::vector<Tap>> taps;
    int most = 1;
    for (int output = 0; output < outputs; ++output) {
        taps.push_back(taps_of(probe, output, inputs, outputs, sum));
        if (taps.back().empty()) {
            return std::nullopt;
        }
        most = std::max(most, taps.back().back().input - taps.back().front().input + 1);
    }
    ScalingWeights found;
    found.used = most;
    found.taps = (most + multiple - 1) / multiple * multiple;
    if (found.taps > inputs) {
        return std::nullopt;
    }
    found.weights.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(found.taps));
    for (int output = 0; output < outputs; ++output) {
        const std::vector<Tap>& own = taps[static_cast<std::size_t>(output)];
        const int first = std::min(own.front().input, inputs - found.taps);
        if (output > 0 && first < found.first.back()) {
            return std::nullopt;
        }
        found.first.push_back(first);
        for (const Tap& tap : own) {
            found.weights[static_cast<std::size_t>(output) * static_cast<std::size_t>(found.taps) +
                          static_cast<std::size_t>(tap.input - first)] = static_cast<std::int16_t>(tap.weight);
        }
    }
    return found;
}

namespace {

int group_begin(int left) {
    return left / kSwsGroup * kSwsGroup;
}

std::size_t row_length(int left, int right) {
    return static_cast<std::size_t>(right - group_begin(left)) + kSwsRowSlack;
}

}  // namespace

SwsRing::SwsRing(const AVFrame& frame, int first_plane, int num_planes, const SwsRowWeights& across,
                 const ScalingWeights& down, int left, int right, std::int16_t* memory)
    : frame_(frame),
      first_plane_(first_plane),
      num_planes_(num_planes),
      across_(across),
      down_(down),
      begin_(group_begin(left)),
      left_(left),
      right_(right),
      length_(row_length(left, right)),
      memory_(memory) {}

std::size_t SwsRing::size(int num_planes, const ScalingWeights& down, int left, int right) {
    return static_cast<std::size_t>(num_planes * down.taps) * row_length(left, right);
}

void SwsRing::prepare(int y, const std::int16_t** rows) {
    constexpr int kTogether = 4;
    const std::uint8_t* from[kTogether];
    std::int16_t* to[kTogether];
    int count = 0;
    const int first = down_.first[static_cast<std::size_t>(y)];
    for (next_ = std::max(next_, first); next_ < first + down_.taps; ++next_) {
        for (int i = 0; i < num_planes_; ++i) {
            const int plane = first_plane_ + i;
            from[count] = frame_.data[plane] + static_cast<std::ptrdiff_t>(next_) * frame_.linesize[plane];
            to[count++] = row(i, next_);
        }
        if (count == kTogether || next_ + 1 == first + down_.taps) {
            sws_kernels()->scale(across_, from, to, count, begin_, right_);
            count = 0;
        }
    }
    for (int i = 0; i < num_planes_; ++i) {
        for (int tap = 0; tap < down_.taps; ++tap) {
            *rows++ = row(i, first + tap) + (left_ - begin_);
        }
    }
}

}  // namespace spdl
