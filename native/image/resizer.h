#pragma once

#include "image/filter_sinks.h"
#include "image/geometry.h"
#include "image/interpolation.h"
#include "image/row_sink.h"
#include "image/simple_sinks.h"

namespace spdl {

// One thread's sinks, kept with their memory from image to image.
class Resizer {
  public:
    // The sink that brings an image of size `from` to `size` and writes it to `to`.
    RowSink& begin(Size from, Size size, Interpolation interpolation, Pixels to);

  private:
    CopySink copy_;
    NearestSink nearest_;
    FilterPlanner planner_;
    HorizontalFirstSink horizontal_first_;
    VerticalFirstSink vertical_first_;
};

}  // namespace spdl
