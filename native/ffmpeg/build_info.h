#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace spdl {

// Returns the name and the version (major, minor, micro) of each library of the FFmpeg in use. It need not be the
// FFmpeg that this was compiled against.
std::vector<std::pair<std::string, std::tuple<unsigned, unsigned, unsigned>>> ffmpeg_versions();

// Returns "LGPL version 2.1 or later" if all of its libraries were built so; otherwise the strictest licence among
// them.
std::string ffmpeg_license();

std::vector<std::string> ffmpeg_filters();

// Returns the advice for users whose FFmpeg was built without the part that an error names.
std::string remedy_for_missing_part();

}  // namespace spdl
