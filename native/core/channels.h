#pragma once

#include <optional>
#include <string_view>

namespace spdl {

// The bytes of a pixel. Between decoder and output a pixel always has three; a gray one has its value three times.
enum class Channels { kRgb, kBgr, kGray };

constexpr int channel_count(Channels channels) {
    return channels == Channels::kGray ? 1 : 3;
}

// The names are FFmpeg's names of pixel formats.
std::optional<Channels> parse_channels(std::string_view pixel_format);
const char* pixel_format_name(Channels channels);

}  // namespace spdl
