#include "image/planes/yuv_resizer.h"

#include <algorithm>

#include "image/resize/kernels.h"

namespace spdl {
namespace {

FineLevel* levels(const AlignedBuffer& buffer) {
    return reinterpret_cast<FineLevel*>(buffer.data());
}

void reserve(AlignedBuffer& buffer, std::size_t count) {
    buffer.reserve(count * sizeof(FineLevel));
}

// Returns the axis of chroma, given the axis of luma. The last sample may stand for fewer pixels than the others.
Axis chroma_axis(Axis axis, int shift) {
    if (shift == 0) {
        return axis;
    }
    const double length = static_cast<double>(axis.input) / (1 << shift);
    axis.input = (axis.input + (1 << shift) - 1) >> shift;
    axis.begin = axis.mirrored ? axis.input - length : 0;
    axis.end = axis.begin + length;
    return axis;
}

// Asks for the columns of rows that are needed soon. They were written a while ago, and are no longer near.
void prefetch(const std::uint8_t* row, std::ptrdiff_t stride, int rows, int columns) {
    constexpr int kLine = 64;
    for (; rows > 0; --rows, row += stride) {
        for (int x = 0; x < columns; x += kLine) {
            __builtin_prefetch(row + x);
        }
    }
}

bool keeps_precision(const Axis& axis, Interpolation interpolation) {
    return 2 * filter_support(interpolation) * (axis.end - axis.begin) <= fine::kMaxTaps * axis.output;
}

}  // namespace

bool YuvResizer::takes(const Resampling& resampling) {
    const Axis& x = resampling.horizontal;
    const Axis& y = resampling.vertical;
    return resampling.interpolation != Interpolation::kNearest && !(x.keeps_length() && y.keeps_length()) &&
           keeps_precision(x, resampling.interpolation) && keeps_precision(y, resampling.interpolation);
}

void YuvResizer::Tables::prepare(const Resampling& resampling) {
    horizontal = cache.horizontal(resampling.horizontal, resampling.interpolation, fine::pack_row);
    vertical = cache.vertical(resampling.vertical, resampling.interpolation, fine::pack_column);
}

void YuvResizer::prepare(const YuvImage& image, const Resampling& resampling, bool colored) {
    luma_.prepare(resampling);
    std::size_t columns = static_cast<std::size_t>(luma_.horizontal->source_count) + fine_slack(*luma_.horizontal);
    auto window = static_cast<std::size_t>(2 * fine::pairs(*luma_.vertical));
    if (colored) {
        Resampling chroma = resampling;
        chroma.horizontal = chroma_axis(chroma.horizontal, image.chroma_shift_x);
        chroma.vertical = chroma_axis(chroma.vertical, image.chroma_shift_y);
        chroma_.prepare(chroma);
        columns = std::max(
            columns, static_cast<std::size_t>(chroma_.horizontal->source_count) + fine_slack(*chroma_.horizontal));
        window = std::max(window, static_cast<std::size_t>(2 * fine::pairs(*chroma_.vertical)));
    }
    window_.resize(window);
    reserve(shortened_, columns);
    const std::size_t width = static_cast<std::size_t>(luma_.horizontal->output) + kFineSlack;
    for (AlignedBuffer& row : rows_) {
        reserve(row, width);
    }
    if (!colored) {
        std::fill_n(levels(rows_[kBlueChroma]), width, kMiddle);
        std::fill_n(levels(rows_[kRedChroma]), width, kMiddle);
    }
}

void YuvResizer::resize_row(const YuvImage::Rows& plane, const Tables& tables, int row, FineLevel* to) {
    const ResampleTable& vertical = *tables.vertical;
    const auto at = static_cast<std::size_t>(row);
    const int columns = tables.horizontal->source_count;
    const int count = (vertical.taps[at] + 1) / 2;
    const int end = vertical.first[at] + vertical.taps[at];
    const std::uint8_t* const source = plane.data + vertical.source * plane.stride + tables.horizontal->source;
    for (int tap = 0; tap < 2 * count; ++tap) {
        // The one that makes up a pair has no weight.
        window_[static_cast<std::size_t>(tap)] = source + std::min(vertical.first[at] + tap, end - 1) * plane.stride;
    }
    kernels_->shorten(fine::column(vertical, row), count, window_.data(), levels(shortened_),
                      static_cast<std::size_t>(columns));
    if (row + 1 < vertical.output) {
        prefetch(source + end * plane.stride, plane.stride, vertical.first[at + 1] + vertical.taps[at + 1] - end,
                 columns);
    }
    kernels_->narrow(*tables.horizontal, levels(shortened_), to);
}

void YuvResizer::write(const YuvImage& image, const Resampling& resampling, const Canvas& canvas,
                       const Target& target) {
    const Kernels& variant = kernels();
    kernels_ = variant.planes;
    const bool colored = canvas.format->channels() != Channels::kGray && image.planes[kBlueChroma].data != nullptr;
    prepare(image, resampling, colored);
    writer_.begin(canvas, target, variant.write_pixels);
    const bool blue_first = canvas.format->channels() == Channels::kBgr;
    const YuvRow finished{levels(rows_[kLuma]), levels(rows_[kBlueChroma]), levels(rows_[kRedChroma])};
    for (int row = 0; row < luma_.vertical->output; ++row) {
        resize_row(image.planes[kLuma], luma_, row, levels(rows_[kLuma]));
        if (colored) {
            resize_row(image.planes[kBlueChroma], chroma_, row, levels(rows_[kBlueChroma]));
            resize_row(image.planes[kRedChroma], chroma_, row, levels(rows_[kRedChroma]));
        }
        kernels_->write(image.colors, finished, static_cast<std::size_t>(luma_.horizontal->output), blue_first,
                        writer_.row(row));
        writer_.commit(row);
    }
}

}  // namespace spdl
