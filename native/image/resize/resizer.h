#pragma once

#include "core/geometry.h"
#include "core/row_sink.h"
#include "image/resize/filter_sinks.h"
#include "image/resize/simple_sinks.h"
#include "image/resize/table_cache.h"
#include "image/write/row_writer.h"
#include "media/interpolation.h"

namespace spdl {

// The resampling along both axes of the stored image.
struct Resampling {
    Axis horizontal;
    Axis vertical;
    Interpolation interpolation = Interpolation::kBilinear;
    bool exact = true;            // If false, the result may be a level off.
    bool vertical_first = false;  // The order of the passes if there are two; they round differently.
};

// One thread's sinks, kept with their memory from image to image.
class Resizer {
  public:
    // Prepares for a resampling, and returns the part of the input that it needs.
    Box prepare(const Resampling& resampling);

    // Returns the sink for that part of the input, which takes it row by row.
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
