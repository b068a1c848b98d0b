#pragma once

#include <string_view>
#include <vector>

namespace spdl {

// What can decode the Huffman codes of a JPEG in this build, what is preferred first: "own", where it is compiled in,
// and "libjpeg".
std::vector<std::string_view> entropy_decoder_names();

// Has all threads use the named one, or with an empty name what is preferred. Returns false where there is no such one.
bool select_entropy_decoder(std::string_view name);

// Whether JPEGs are to be offered to our own decoder.
bool own_entropy_decoder_selected() noexcept;

}  // namespace spdl
