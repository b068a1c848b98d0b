#pragma once

#include <string_view>
#include <vector>

namespace spdl {

// Returns the decoders of Huffman codes of a JPEG in this build, the preferred one first: "own", if it is compiled in,
// and "libjpeg".
std::vector<std::string_view> entropy_decoder_names();

// Selects the named decoder for all threads; an empty name selects the preferred one. Returns false if there is no such
// decoder.
bool select_entropy_decoder(std::string_view name);

// Returns whether JPEGs are offered to our own decoder.
bool own_entropy_decoder_selected() noexcept;

}  // namespace spdl
