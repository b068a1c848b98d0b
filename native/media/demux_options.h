#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spdl {

using OptionList = std::vector<std::pair<std::string, std::string>>;

// How an image is found in its input.
struct DemuxOptions {
    std::string format;  // Empty: detected from the bytes.
    OptionList format_options;
    int buffer_size = 8096;
    std::string bsf;          // Bitstream filters for the packet. Empty: none.
    bool for_ffmpeg = false;  // FFmpeg is to decode it.

    // Returns whether the options ask for something that only FFmpeg has.
    [[nodiscard]] bool need_ffmpeg() const {
        return for_ffmpeg || !format.empty() || !format_options.empty() || !bsf.empty();
    }
};

}  // namespace spdl
