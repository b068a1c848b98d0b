#include "av/picture_array.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/media_error.h"

namespace spdl {
namespace {

std::string describe(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

}  // namespace

void throw_size_change(Size from, Size to) {
    throw MediaError("the pictures change their size in mid-stream, from " + describe(from) + " to " + describe(to) +
                     ": give the width and the height that all are to have");
}

PictureArray::PictureArray(const LoadOptions& options, int rotation, std::size_t count, const Memory* memory)
    : options_(options), writer_(options, rotation), count_(count), memory_(memory) {}

void PictureArray::write(const AVFrame& frame, std::size_t row) {
    const Size canvas = writer_.open(frame);
    if (!array_.owner) {
        canvas_ = canvas;
        row_bytes_ = options_.format.image_bytes(canvas);
        std::vector<std::size_t> sides = options_.format.shape(count_, canvas);
        array_ = memory_ == nullptr ? allocate(std::move(sides), options_.format.type())
                                    : allocate_in(*memory_, std::move(sides), options_.format.type());
    }
    if (canvas != canvas_) {
        throw_size_change(canvas_, canvas);
    }
    writer_.write(array_.data + row * row_bytes_);
}

void PictureArray::copy(std::size_t from, std::size_t to) {
    std::memcpy(array_.data + to * row_bytes_, array_.data + from * row_bytes_, row_bytes_);
}

}  // namespace spdl
