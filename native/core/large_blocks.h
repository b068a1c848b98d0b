#pragma once

#include <cstddef>

namespace spdl {

// Memory from the system in whole pages, for blocks of kSmallestBlock bytes and more; in whole huge pages from
// kLargeBlock on. What was freed is kept for a while, for whoever asks for the same size next.
//
// Threads allocate and free blocks of a batch's size. From malloc they end up scattered over the threads' arenas, which
// then hold several times the memory in use. And the system zeroes fresh pages one by one.
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;
constexpr std::size_t kLargeBlock = std::size_t{1} << 20;

// Not initialised. Throws std::bad_alloc.
void* take_large_block(std::size_t size);

// `size` must be the size that the block was taken with.
void give_large_block(void* block, std::size_t size) noexcept;

}  // namespace spdl
