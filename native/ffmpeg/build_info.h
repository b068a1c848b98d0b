#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace spdl {

// The libraries of the FFmpeg in use, which need not be the one that was compiled against: name, and major, minor,
// micro.
std::vector<std::pair<std::string, std::tuple<unsigned, unsigned, unsigned>>> ffmpeg_versions();

// "LGPL version 2.1 or later", where all of its libraries were built so; otherwise the strictest of theirs.
std::string ffmpeg_license();

std::vector<std::string> ffmpeg_filters();

// What to do where the FFmpeg in use was built without the part that an error names.
std::string remedy_for_missing_part();

}  // namespace spdl
