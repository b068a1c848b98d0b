#pragma once

#include <string>

namespace spdl {

// Returns a chain of filters with the name of every option, as FFmpeg reads it: "scale=224:224, format=rgb24" becomes
// "scale=w=224:h=224,format=pix_fmts=rgb24". An option has the shortest of its names, those of one filter come in the
// order of its documentation, and texts that are the default are left out. Returns "" for what FFmpeg refuses, for a
// graph of more than one chain, and where a value holds a character that would have to be quoted.
std::string with_named_options(const std::string& description);

// Returns whether the first filter of a description makes RGB of all pictures, with alpha or without.
bool begins_with_rgb(const std::string& description);

}  // namespace spdl
