#pragma once

#include <array>
#include <cstddef>

#include "image/resize/resample_table.h"
#include "media/interpolation.h"

namespace spdl {

// Keeps the tables of the last few resizes: most folders have a few image sizes, and a table costs as much as a tenth
// of a small image's resize.
class TableCache {
  public:
    // The result of each is valid until its next call.
    const ResampleTable* horizontal(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));
    const ResampleTable* vertical(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));

  private:
    struct Tables {
        std::array<ResampleTable, 4> tables;
        std::size_t oldest = 0;
        const ResampleTable* get(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));
    };

    void (*pack_horizontal_)(ResampleTable&) = nullptr;
    void (*pack_vertical_)(ResampleTable&) = nullptr;
    Tables horizontal_;
    Tables vertical_;
};

}  // namespace spdl
