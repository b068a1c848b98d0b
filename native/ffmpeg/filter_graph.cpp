#include "ffmpeg/filter_graph.h"

#include <new>

namespace spdl {

FilterGraphPtr make_filter_graph() {
    FilterGraphPtr graph(avfilter_graph_alloc());
    if (!graph || av_opt_set(graph.get(), "aresample_swr_opts", "rematrix_maxval=1", 0) < 0) {
        throw std::bad_alloc();
    }
    return graph;
}

}  // namespace spdl
