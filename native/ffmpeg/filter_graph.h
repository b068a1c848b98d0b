#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Returns an empty graph of filters. Where sound has other channels than a filter takes, FFmpeg puts a filter in
// between that mixes them. For integers it divides by the sum of the weights, for floats it does not, so the gain would
// depend on the codec and on the types that filters agree on. Such filters of this graph always divide.
FilterGraphPtr make_filter_graph();

}  // namespace spdl
