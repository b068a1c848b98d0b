#pragma once

#include <setjmp.h>

#include <cstdint>
#include <cstdio>
#include <string>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// How libjpeg gives up: it jumps out of its work, and prints nothing. The state that survives the jump is here.
struct JpegFailure {
    jpeg_error_mgr errors{};
    jmp_buf on_error{};
    char message[JMSG_LENGTH_MAX]{};
    bool out_of_memory = false;

    // The value that the jump passes.
    static constexpr int kFailed = 1;

    static JpegFailure& of(j_common_ptr codec) { return *static_cast<JpegFailure*>(codec->client_data); }

    // Has a codec that is yet to be created give up so.
    void handle_errors_of(j_common_ptr codec) noexcept;

    // Throws what has happened: MediaError with the message after `what`, or bad_alloc.
    [[noreturn]] void raise(const std::string& what) const;
};

// The samples as the header of a JPEG describes them.

// Returns how many pixels share a chroma sample.
Size chroma_grid(const jpeg_decompress_struct& codec);

// Returns FFmpeg's name of what is stored.
const char* pixel_format(const jpeg_decompress_struct& codec);

// Returns whether the planes are luma and two alike of chroma, whose sides are as long or half as long. Lossless images
// do not have the blocks that planes are made of: unlike scans of blocks, their scans name no last coefficient.
bool has_planes(const jpeg_decompress_struct& codec);

// The coding of the image according to the first frame header of a JPEG.
struct JpegFrame {
    std::uint8_t marker = 0xc0;  // The kind of frame, by its marker's second byte.
    int bits = 8;                // Of a sample.
    int components = 3;

    [[nodiscard]] bool is_jpeg_ls() const noexcept { return marker == 0xf7; }
    [[nodiscard]] bool lossless() const noexcept { return (marker & 3U) == 3; }
    [[nodiscard]] bool arithmetic() const noexcept { return (marker & 8U) != 0; }

    // Returns whether it is one of those that every version of libjpeg-turbo decodes, and FFmpeg, too.
    [[nodiscard]] bool common() const noexcept { return bits == 8 && !is_jpeg_ls() && !lossless() && !arithmetic(); }
};

// Returns the frame of a JPEG, or a common one if none is found: that is then left to libjpeg-turbo.
JpegFrame jpeg_frame(Bytes jpeg) noexcept;

// Reads through the JPEG that another library will decode, and throws MediaError if it is truncated or damaged: FFmpeg
// makes a picture of what there is and paints the rest, without an error. Bytes that are not JPEG pass, and so do JPEGs
// of the kinds that libjpeg-turbo does not read.
void check_jpeg(Bytes bytes, std::int64_t max_pixels);

}  // namespace spdl
