#include "image/load/varied.h"

#include <cstring>

#include "image/augment/move.h"
#include "image/augment/pixel_steps.h"
#include "image/jitter/color_jitter.h"
#include "image/resize/kernels.h"
#include "image/write/pixel_writers.h"

namespace spdl {

std::uint8_t* reserve_pixels(Size size, ThreadScratch& scratch) {
    scratch.pixels.reserve(rgb_bytes(size) + kJitterSlack);
    return scratch.pixels.data();
}

void write_varied(std::uint8_t* pixels, Size size, const LoadOptions& options, const CropsAndFlips& changes,
                  std::size_t image, std::uint8_t* to, ThreadScratch& scratch) {
    const ArrayFormat& format = options.format;
    const std::size_t bytes = rgb_bytes(size);
    const std::size_t count = bytes / 3;
    if (!changes.places.empty()) {
        const bool blend = options.interpolation != Interpolation::kNearest;
        for (const AffineMap& move : changes.places[image].moves) {
            move_pixels(move, blend, format.pad(), pixels, size, scratch.steps.before);
        }
    }
    if (changes.jitter != nullptr) {
        jitter_pixels(pixels, count, format.channels(), changes.jitter->draw(changes.jitter->indices[image]));
    }
    if (changes.augment != nullptr) {
        changes.augment->draw(changes.augment->indices[image], size, scratch.steps.steps);
        take_steps(scratch.steps.steps, pixels, size, format.channels(), scratch.steps);
    }
    if (format.plain()) {
        std::memcpy(to, pixels, bytes);
        return;
    }
    const std::size_t plane = count * format.element();
    std::uint8_t* const planes[] = {to, to + plane, to + 2 * plane};
    PixelWriter* const write = format.ids() ? write_ids : kernels().write_pixels;
    write(format, pixels, count, planes);
}

}  // namespace spdl
