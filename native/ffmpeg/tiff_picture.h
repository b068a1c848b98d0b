#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "media/decode_options.h"

namespace spdl {

// What FFmpeg has to be given for a picture of a TIFF.
struct TiffPicture {
    // Bytes to follow the file: a directory with what FFmpeg needs to know of the picture, and nothing that it does not
    // know. Empty if FFmpeg is to choose the picture.
    std::vector<std::uint8_t> directory;
    std::uint32_t directory_at = 0;
    bool little_endian = true;
    bool video_levels = false;     // It is of YCbCr, and does not use all levels.
    bool divide_by_alpha = false;  // The colours of the decoded picture were multiplied by its alpha.
};

// Checks the picture of a TIFF. Throws MediaError if FFmpeg would decode it to other pixels than it has: FFmpeg shows
// black for data that it does not read, or takes them for something else.
TiffPicture find_tiff_picture(Bytes tiff, const DecodeOptions& options);

}  // namespace spdl
