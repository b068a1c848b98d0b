#include "av/sws_scaler.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>

#include "av/scaling_context.h"
#include "av/sws_check.h"
#include "av/sws_ring.h"

namespace spdl {
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
        // This does not wait for the lock: in a forked child nobody might ever unlock it.
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

}  // namespace spdl
