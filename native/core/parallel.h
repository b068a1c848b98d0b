#pragma once

#include <cstddef>
#include <functional>

namespace spdl {

// Calls `work` once for every index from `begin` to before `end`, on this thread and up to `threads` - 1 others. The
// others end before it returns. The first exception ends the work and is thrown here.
void run_parallel(int threads, std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work);

}  // namespace spdl
