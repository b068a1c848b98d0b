#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/bytes.h"
#include "core/channels.h"
#include "core/geometry.h"
#include "core/limits.h"
#include "core/row_sink.h"

namespace spdl {

// Returns whether the bytes begin like every JPEG: with a start of image and the first byte of another marker.
bool is_jpeg(Bytes bytes) noexcept;

struct JpegHeader {
    Size size;
    const char* pixel_format;  // As FFmpeg names what is stored: "yuvj420p", "gray", ...
    Size chroma_grid;          // How many pixels share a chroma sample.
};

struct JpegOptions {
    std::int64_t max_pixels = kMaxPixels;
    // If the data ends before the image does, keep the decoded part instead of throwing.
    bool keep_truncated = false;
};

// libjpeg-turbo's own structures.
struct JpegState;

// Decodes JPEG through libjpeg-turbo as Pillow does: slow integer inverse DCT, fancy upsampling, CMYK and YCCK with
// Adobe's inverted values. Truncated data is an error. Damage inside the data is none if libjpeg can go on. Throws
// MediaError. One thread at a time.
class JpegDecoder {
  public:
    JpegDecoder();
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;

    // Reads the header; `bytes` must stay in place until decode has returned.
    JpegHeader read_header(Bytes bytes, const JpegOptions& options);

    // Returns the size of the image whose header was read last, decoded to `eighths` (8, 4, 2 or 1) of its own.
    Size scaled_size(int eighths);

    // Begins to decode only `wanted`, a part of that size. Its pixels are those of a whole decode. Returns the columns
    // that the rows will have: those of `wanted`, and as few more as the format allows.
    Box begin(int eighths, const Box& wanted, Channels channels);

    // Decodes the rows. Nothing below `wanted` is looked at.
    void decode(RowSink& sink);

    // Returns the name of the decoder of the last image's Huffman codes, as in entropy_decoder_names.
    [[nodiscard]] std::string_view entropy_decoder() const noexcept;

    // Returns whether the data ended before the last image did.
    [[nodiscard]] bool truncated() const noexcept;

  private:
    std::unique_ptr<JpegState> state_;
};

}  // namespace spdl
