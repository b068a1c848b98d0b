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

// True for the first bytes of every JPEG: a start of image and the first byte of another marker.
bool is_jpeg(Bytes bytes) noexcept;

struct JpegHeader {
    Size size;
    const char* pixel_format;  // As FFmpeg names what is stored: "yuvj420p", "gray", ...
    Size chroma_grid;          // How many pixels share a chroma sample.
};

struct JpegOptions {
    std::int64_t max_pixels = kMaxPixels;
    // Where the data ends before the image does, keep what there is instead of throwing.
    bool keep_truncated = false;
};

// libjpeg-turbo's own structures.
struct JpegState;

// Decodes JPEG through libjpeg-turbo as Pillow does: slow integer inverse DCT, fancy upsampling, CMYK and YCCK with
// Adobe's inverted values. Truncated data is an error; damage inside the data is not, where libjpeg can go on.
// Throws MediaError. One thread at a time.
class JpegDecoder {
  public:
    JpegDecoder();
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;

    // Reads the header; `bytes` must stay in place until decode has returned.
    JpegHeader read_header(Bytes bytes, const JpegOptions& options);

    // The size at which the image whose header was read last is decoded to `eighths` (8, 4, 2 or 1) of its own.
    Size scaled_size(int eighths);

    // Begins to decode: only `wanted`, a part of that size, is. Its pixels are those of a whole decode.
    // Returns the columns that the rows will have: as few as the format allows, but those of `wanted` among them.
    Box begin(int eighths, const Box& wanted, Channels channels);

    // The rest of it. What lies below `wanted` is not looked at.
    void decode(RowSink& sink);

    // What decoded the Huffman codes of the last image, as entropy_decoder_names calls it.
    [[nodiscard]] std::string_view entropy_decoder() const noexcept;

    // Whether the data ended before the last image did.
    [[nodiscard]] bool truncated() const noexcept;

  private:
    std::unique_ptr<JpegState> state_;
};

}  // namespace spdl
