#include "av/sws_scaler.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <utility>

#include "av/scaling_context.h"
#include "core/media_error.h"

namespace spdl {
namespace {

constexpr int kMostRows = 128;  // That the second pass adds up.

int half(int size) {
    return (size + 1) / 2;
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

FramePtr make_picture(AVPixelFormat format, Size size) {
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    if (av_frame_get_buffer(frame.get(), 0) < 0) {
        throw std::bad_alloc();
    }
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

// The rows that the first pass has made, as many as the second pass needs at once.
class Ring {
  public:
    Ring(std::int16_t* memory, int rows, std::size_t length) : memory_(memory), rows_(rows), length_(length) {}

    [[nodiscard]] std::int16_t* row(int index) const {
        return memory_ + static_cast<std::size_t>(index % rows_) * length_;
    }

  private:
    std::int16_t* memory_;
    int rows_;
    std::size_t length_;
};

}  // namespace

std::optional<SwsScaler::Form> SwsScaler::form_of(const AVFrame& like, Size to, Interpolation interpolation) {
    const bool yuv = like.format == AV_PIX_FMT_YUV420P || like.format == AV_PIX_FMT_YUVJ420P;
    // libswscale goes other ways if the width is odd, or nothing is scaled.
    if (!yuv || sws_kernels() == nullptr || to.width < 2 || to.width % 2 != 0 || to.height < 1 ||
        like.height == to.height || interpolation == Interpolation::kNearest) {
        return std::nullopt;
    }
    return Form{{like.width, like.height}, to,           static_cast<AVPixelFormat>(like.format), like.colorspace,
                like.color_range,          interpolation};
}

std::optional<std::shared_ptr<const SwsScaler>> SwsScaler::known(const Form& form) {
    return known_scalers().find(form);
}

std::vector<std::pair<SwsScaler::Form, bool>> SwsScaler::all_known() {
    return known_scalers().all();
}

std::shared_ptr<const SwsScaler> SwsScaler::make(const Form& form) {
    std::shared_ptr<SwsScaler> made(new SwsScaler(form));
    if (!made->prepare() || !made->gives_the_same()) {
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
    const Size from = form_.from;
    const Size to = form_.to;
    if (!read(ScalingAxis::kHorizontal, from.width, to.width, 8, across_.luma) ||
        !read(ScalingAxis::kHorizontal, half(from.width), to.width / 2, 8, across_.chroma) ||
        !read(ScalingAxis::kVertical, from.height, to.height, 2, down_.luma) ||
        !read(ScalingAxis::kVertical, half(from.height), to.height, 2, down_.chroma)) {
        return false;
    }
    if (std::max(across_.luma.taps, across_.chroma.taps) > kMostSwsTaps ||
        std::max(down_.luma.taps, down_.chroma.taps) > kMostRows) {
        return false;
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

bool SwsScaler::gives_the_same() const {
    const FramePtr noise = make_noise(form_);
    const FramePtr expected = make_picture(AV_PIX_FMT_RGB24, form_.to);
    const FramePtr found = make_picture(AV_PIX_FMT_RGB24, form_.to);
    const SwsContextPtr context = make_scaling_context(*noise, form_.to, AV_PIX_FMT_RGB24, form_.interpolation);
    if (!context || sws_scale(context.get(), noise->data, noise->linesize, 0, form_.from.height, expected->data,
                              expected->linesize) != form_.to.height) {
        return false;
    }
    Scratch scratch;
    scale(*noise, whole(form_.to), found->data[0], found->linesize[0], scratch);
    for (int y = 0; y < form_.to.height; ++y) {
        if (std::memcmp(found->data[0] + static_cast<std::ptrdiff_t>(y) * found->linesize[0],
                        expected->data[0] + static_cast<std::ptrdiff_t>(y) * expected->linesize[0],
                        static_cast<std::size_t>(form_.to.width) * 3) != 0) {
            return false;
        }
    }
    return true;
}

void SwsScaler::scale(const AVFrame& frame, const Box& part, std::uint8_t* to, std::ptrdiff_t stride,
                      Scratch& scratch) const {
    const SwsKernels& kernels = *sws_kernels();
    // Two pixels share their chroma, so columns come in pairs.
    const int left = part.left / 2 * 2;
    const int width = (part.right + 1) / 2 * 2 - left;
    const auto luma_length = static_cast<std::size_t>(width) + kSwsRowSlack;
    const auto chroma_length = static_cast<std::size_t>(width / 2) + kSwsRowSlack;
    const auto luma_rows = static_cast<std::size_t>(down_.luma.taps);
    const auto chroma_rows = static_cast<std::size_t>(down_.chroma.taps);
    // One row of packed pixels is at the end.
    const std::size_t size =
        luma_rows * luma_length + 2 * chroma_rows * chroma_length + 3 * luma_length + 3 * luma_length / 2;
    if (scratch.size() < size) {
        scratch.resize(size);
    }
    const Ring luma(scratch.data(), down_.luma.taps, luma_length);
    const Ring u(scratch.data() + luma_rows * luma_length, down_.chroma.taps, chroma_length);
    const Ring v(scratch.data() + luma_rows * luma_length + chroma_rows * chroma_length, down_.chroma.taps,
                 chroma_length);
    std::int16_t* const mixing = scratch.data() + luma_rows * luma_length + 2 * chroma_rows * chroma_length;
    auto* const packed = reinterpret_cast<std::uint8_t*>(mixing + 3 * luma_length);

    const auto scale_row = [&](int plane, int row, const ScalingWeights& weights, int first, int count,
                               std::int16_t* into) {
        kernels.scale(
            frame.data[plane] + static_cast<std::ptrdiff_t>(row) * frame.linesize[plane], weights.first.data() + first,
            weights.weights.data() + static_cast<std::ptrdiff_t>(first) * weights.taps, weights.taps, count, into);
    };
    int next_luma = 0;
    int next_chroma = 0;
    const std::int16_t* rows[3][kMostRows];
    for (int y = part.top; y < part.bottom; ++y) {
        const int first_luma = down_.luma.first[static_cast<std::size_t>(y)];
        for (next_luma = std::max(next_luma, first_luma); next_luma < first_luma + down_.luma.taps; ++next_luma) {
            scale_row(0, next_luma, across_.luma, left, width, luma.row(next_luma));
        }
        const int first_chroma = down_.chroma.first[static_cast<std::size_t>(y)];
        for (next_chroma = std::max(next_chroma, first_chroma); next_chroma < first_chroma + down_.chroma.taps;
             ++next_chroma) {
            scale_row(1, next_chroma, across_.chroma, left / 2, width / 2, u.row(next_chroma));
            scale_row(2, next_chroma, across_.chroma, left / 2, width / 2, v.row(next_chroma));
        }
        for (int tap = 0; tap < down_.luma.taps; ++tap) {
            rows[0][tap] = luma.row(first_luma + tap);
        }
        for (int tap = 0; tap < down_.chroma.taps; ++tap) {
            rows[1][tap] = u.row(first_chroma + tap);
            rows[2][tap] = v.row(first_chroma + tap);
        }
        const SwsRowsIn in{
            rows[0],          down_.luma.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.luma.taps,
            down_.luma.taps,  rows[1],
            rows[2],          down_.chroma.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.chroma.taps,
            down_.chroma.taps};
        std::uint8_t* const row = to + (y - part.top) * stride;
        if (width == part.right - part.left) {
            kernels.mix(in, colors_, width, mixing, row);
        } else {
            kernels.mix(in, colors_, width, mixing, packed);
            std::memcpy(row, packed + 3 * (part.left - left), static_cast<std::size_t>(3 * (part.right - part.left)));
        }
    }
}

}  // namespace spdl
