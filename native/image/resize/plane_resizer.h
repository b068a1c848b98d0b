#pragma once

#include <array>
#include <cstdint>

#include "core/aligned_buffer.h"
#include "core/geometry.h"
#include "core/plane_sink.h"
#include "image/resize/resizer.h"
#include "image/resize/row_ring.h"
#include "image/resize/table_cache.h"
#include "image/resize/vertical_pass.h"
#include "image/write/row_writer.h"
#include "media/place.h"

namespace spdl {

struct PlaneBoxes {
    Box luma;
    Box chroma;
};

// Resizes the planes of an image, each by itself, and then turns their rows into pixels. That takes less than the
// conversion of an image at its full size, with chroma upsampled before. Each plane gets the results of Pillow's resize
// of a gray image, one side after the other.
//
// One thread's memory for that, kept from image to image.
class PlaneResizer final : public PlaneSink {
  public:
    // Prepares for a resampling of luma and one of chroma, both to the same size. Returns the parts of the planes that
    // it needs.
    PlaneBoxes prepare(const Resampling& luma, const Resampling& chroma);

    // Returns the sink for those parts.
    PlaneSink& begin(const DecodedPlanes& source, const Canvas& canvas, const Target& target);

    std::uint8_t* row(Plane plane, int y) noexcept override { return planes_[plane].source.row(y); }
    void commit(int luma, int chroma) noexcept override;

  private:
    // The resize of one kind of plane.
    struct Tables {
        TableCache cache;
        const ResampleTable* horizontal = nullptr;
        const ResampleTable* vertical = nullptr;

        Box prepare(const Resampling& resampling, const Kernels& kernels);
    };

    // One plane on its way. Rows are narrowed as they come, a few at a time, into a ring that is as long as the
    // vertical pass needs it.
    struct Stages {
        RowRing source;
        RowRing narrowed;
        VerticalPass vertical;
        AlignedBuffer output;
        int rows = 0;   // How many are needed,
        int ready = 0;  // and how many of them are narrowed.

        void begin(const Tables& tables, const PlaneRows& decoded, const Kernels& kernels);
        void narrow(const Tables& tables, int end, const Kernels& kernels);
        const std::uint8_t* next_row(const Tables& tables);
    };

    const Kernels* kernels_ = nullptr;
    Tables luma_;
    Tables chroma_;
    std::array<Stages, kPlanes> planes_;
    RowWriter writer_;
    bool blue_first_ = false;
};

}  // namespace spdl
