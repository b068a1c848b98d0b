#include "image/write_image.h"

#include <cstring>

namespace spdl {
namespace {

void blacken_border(const Placement& placement, Pixels canvas) {
    const auto left = 3 * static_cast<std::size_t>(placement.left);
    const auto image = 3 * static_cast<std::size_t>(placement.image.width);
    for (int y = 0; y < placement.canvas.height; ++y) {
        if (y < placement.top || y >= placement.top + placement.image.height) {
            std::memset(canvas.row(y), 0, canvas.stride);
        } else if (image != canvas.stride) {
            std::memset(canvas.row(y), 0, left);
            std::memset(canvas.row(y) + left + image, 0, canvas.stride - left - image);
        }
    }
}

}  // namespace

void write_image(ImageReader& reader, const Placement& placement, Interpolation interpolation, std::uint8_t* to,
                 ThreadScratch& scratch) {
    const Pixels canvas{to, 3 * static_cast<std::size_t>(placement.canvas.width)};
    blacken_border(placement, canvas);
    const Pixels inside{canvas.row(placement.top) + 3 * static_cast<std::size_t>(placement.left), canvas.stride};
    reader.read(scratch.resizer.begin(reader.size(), placement.image, interpolation, inside));
}

}  // namespace spdl
