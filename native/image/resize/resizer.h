#pragma once

#include "core/geometry.h"
#include "core/row_sink.h"
#include "image/resize/filter_sinks.h"
#include "image/resize/simple_sinks.h"
#include "image/write/row_writer.h"
#include "media/interpolation.h"

namespace spdl {

// What is done along either axis of an image as it is stored.
struct Resampling {
    Axis horizontal;
    Axis vertical;
    Interpolation interpolation = Interpolation::kBilinear;
    bool exact = true;            // Otherwise it may be a level off.
    bool vertical_first = false;  // The order of the passes, which round differently, where there are two.
};

// One thread's sinks, kept with their memory from image to image.
class Resizer {
  public:
    // Prepares for it, and returns which part of the input is needed.
    Box prepare(const Resampling& resampling);

    // The sink for that part of the input, row by row.
    RowSink& begin(const DecodedRows& source, const Canvas& canvas, const Target& target);

    void blacken(const Canvas& canvas);

  private:
    Resampling resampling_;
    FilterPlan plan_;
    TableCache tables_;
    NearestTable nearest_columns_;
    NearestTable nearest_rows_;
    RowWriter writer_;
    CopySink copy_;
    NearestSink nearest_;
    HorizontalFirstSink horizontal_first_;
    VerticalFirstSink vertical_first_;
};

}  // namespace spdl
