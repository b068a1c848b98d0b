#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Returns where the directories of a TIFF's pages are, of the first `most` ones: of the chain that begins in its
// header, up to a link to one that came before. Throws MediaError if the bytes are no TIFF, or the chain leaves the
// file.
std::vector<std::uint64_t> tiff_pages(Bytes bytes, std::size_t most);

}  // namespace spdl
