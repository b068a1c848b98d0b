#pragma once

#include <cstddef>
#include <functional>

namespace spdl {

// Calls `work` once for every index from `begin` to before `end`, on this thread and up to `threads` - 1 others, which
// end before it returns. The first exception ends it and is thrown here.
void run_parallel(int threads, std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work);

}  // namespace spdl
