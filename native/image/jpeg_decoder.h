#pragma once

#include <memory>
#include <string_view>

#include "core/file_reader.h"
#include "image/geometry.h"
#include "image/row_sink.h"

namespace spdl {

// True for the first bytes of every JPEG: a start of image and the first byte of another marker.
bool is_jpeg(Bytes bytes) noexcept;

struct JpegHeader {
    Size size;
    const char* pixel_format;  // As FFmpeg names what is stored: "yuvj420p", "gray", ...
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
    JpegHeader read_header(Bytes bytes);

    // Decodes the image whose header was read last, as RGB.
    void decode(RowSink& sink);

    // What decoded the Huffman codes of the last image, as entropy_decoder_names calls it.
    [[nodiscard]] std::string_view entropy_decoder() const noexcept;

  private:
    std::unique_ptr<JpegState> state_;
};

}  // namespace spdl
