#pragma once

#include <cstddef>
#include <cstdint>

#include "image/planes/yuv_image.h"
#include "image/resize/resample_table.h"

namespace spdl {

// One row of each plane.
struct YuvRow {
    const FineLevel* y;
    const FineLevel* cb;
    const FineLevel* cr;
};

// The steps of a resize of planes in memory, in one variant per instruction set. All give the same bytes.
struct PlaneKernels {
    // Adds up `count` pairs of rows, each multiplied by its weights (see fine::column), over columns [0, size). Reads
    // nothing beyond the rows; may write up to kFineSlack levels beyond the end of the output.
    void (*shorten)(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                    std::size_t size) noexcept;

    // Resamples a row along x, with a table that fine::pack_row has packed. Reads up to fine_slack(table) levels beyond
    // the end of the row, and may write up to kFineSlack levels beyond the end of the output.
    void (*narrow)(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept;

    // Turns `count` levels of each plane into packed pixels of three bytes, red first or blue first. Reads up to
    // kFineSlack levels beyond the end of each row, writes nothing beyond the pixels.
    void (*write)(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first,
                  std::uint8_t* to) noexcept;
};

inline constexpr std::size_t kFineSlack = 64;

inline std::size_t fine_slack(const ResampleTable& table) {
    return kFineSlack + static_cast<std::size_t>(table.max_taps);
}

extern const PlaneKernels kScalarPlanes;
extern const PlaneKernels kAvx2Planes;
extern const PlaneKernels kAvx512Planes;
extern const PlaneKernels kNeonPlanes;

}  // namespace spdl
