#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "image/planes/plane_kernels.h"
#include "image/resize/resample_table.h"
#include "image/resize/resizer.h"
#include "image/write/pixel_writers.h"

namespace spdl {

// Resizes the planes of an image in memory, each by itself, and turns their rows into pixels. A large image then leaves
// few pixels to convert. The planes are read in place: first the vertical pass, which takes whole rows, then the
// horizontal one. Levels keep a fraction on the way, so the result is rounded once.
//
// One thread's memory for that, kept from image to image.
class YuvResizer {
  public:
    // Returns whether it is a resize, by a filter whose weights are large enough to be rounded.
    static bool takes(const Resampling& resampling);

    // Writes an image that is resampled as a whole.
    void write(const YuvImage& image, const Resampling& resampling, const Canvas& canvas, const Target& target);

  private:
    // The resize of one kind of plane.
    struct Tables {
        TableCache cache;
        const ResampleTable* horizontal = nullptr;
        const ResampleTable* vertical = nullptr;

        void prepare(const Resampling& resampling);
    };

    void prepare(const YuvImage& image, const Resampling& resampling, bool colored);
    void resize_row(const YuvImage::Rows& plane, const Tables& tables, int row, FineLevel* to);

    const PlaneKernels* kernels_ = nullptr;
    Tables luma_;
    Tables chroma_;
    std::vector<const std::uint8_t*> window_;
    AlignedBuffer shortened_;
    std::array<AlignedBuffer, kPlanes> rows_;
    RowWriter writer_;
};

}  // namespace spdl
