#pragma once

#include <cstddef>

namespace spdl {

// Memory from the system in whole huge pages, for blocks of this size and more.
//
// From malloc, blocks of a batch's size that threads allocate and others free end up scattered over the threads'
// arenas, which then hold several times what is in use. And pages that come fresh from the system are zeroed first, one
// by one.
constexpr std::size_t kLargeBlock = std::size_t{1} << 20;

// Not initialised. Throws std::bad_alloc.
void* take_large_block(std::size_t size);

// `size` is that which it was taken for.
void give_large_block(void* block, std::size_t size) noexcept;

}  // namespace spdl
