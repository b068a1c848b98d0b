#include "image/write/row_writer.h"

#include <algorithm>
#include <cstring>

namespace spdl {

void RowWriter::begin(const Canvas& canvas, const Target& target, PixelWriter* write_pixels) {
    canvas_ = canvas;
    target_ = target;
    write_pixels_ = write_pixels;
    const ArrayFormat& format = *canvas.format;
    const auto width = static_cast<std::size_t>(canvas.size.width);
    const bool planar = format.layout() == Layout::kNchw;
    pixel_stride_ = format.element() * (planar ? 1 : static_cast<std::size_t>(channel_count(format.channels())));
    row_stride_ = width * pixel_stride_;
    plane_stride_ = row_stride_ * static_cast<std::size_t>(canvas.size.height);
    direct_ = format.plain() && !target.transposed;
    if (!direct_) {
        row_.reserve(3 * static_cast<std::size_t>(target.row_pixels()) + kPixelSlack);
    }
    const Box& box = target.box;
    if (box != whole(canvas.size)) {
        const std::size_t bytes = 3 * width + kPixelSlack;
        black_.reserve(bytes);
        std::memset(black_.data(), 0, bytes);
        blacken(0, canvas.size.width, 0, box.top);
        blacken(0, canvas.size.width, box.bottom, canvas.size.height);
        blacken(0, box.left, box.top, box.bottom);
        blacken(box.right, canvas.size.width, box.top, box.bottom);
    }
}

void RowWriter::blacken(int left, int right, int top, int bottom) {
    for (int y = top; y < bottom && left < right; ++y) {
        write_row(black_.data(), left, y, right - left);
    }
}

void RowWriter::write_row(const std::uint8_t* pixels, int x, int y, int count) {
    std::uint8_t* const to = place(x, y);
    if (canvas_.format->plain()) {
        std::memcpy(to, pixels, 3 * static_cast<std::size_t>(count));
        return;
    }
    const bool planar = canvas_.format->layout() == Layout::kNchw && canvas_.format->channels() != Channels::kGray;
    std::uint8_t* const planes[3] = {to, planar ? to + plane_stride_ : nullptr,
                                     planar ? to + 2 * plane_stride_ : nullptr};
    write_pixels_(*canvas_.format, pixels, static_cast<std::size_t>(count), planes);
}

void RowWriter::write_column(const std::uint8_t* pixels, int x) {
    const ArrayFormat& format = *canvas_.format;
    const auto channels = static_cast<std::size_t>(channel_count(format.channels()));
    const std::size_t step = format.layout() == Layout::kNchw ? plane_stride_ : format.element();
    for (int y = target_.box.top; y < target_.box.bottom; ++y, pixels += 3) {
        std::uint8_t* const to = place(x, y);
        for (std::size_t channel = 0; channel < channels; ++channel) {
            format.write(channel, pixels[channel], to + channel * step);
        }
    }
}

void RowWriter::write(int index, const std::uint8_t* pixels) {
    if (target_.transposed) {
        write_column(pixels, target_.last_first ? target_.box.right - 1 - index : target_.box.left + index);
    } else {
        write_row(pixels, target_.box.left, canvas_row(index), target_.row_pixels());
    }
}

}  // namespace spdl
