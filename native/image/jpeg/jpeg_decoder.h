#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/channels.h"
#include "core/geometry.h"
#include "core/limits.h"
#include "core/plane_sink.h"
#include "core/row_sink.h"
#include "media/place.h"

namespace spdl {

// Returns whether the bytes begin like every JPEG: with a start of image and the first byte of another marker.
bool is_jpeg(Bytes bytes) noexcept;

struct JpegHeader {
    Size size;
    const char* pixel_format;  // As FFmpeg names what is stored, "yuvj420p", "gray", ..., or what decode_whole gives.
    Size chroma_grid;          // How many pixels share a chroma sample.
    bool planes;               // It can be decoded as planes.
    bool scalable;             // It can be decoded at a fraction of its size.
};

struct JpegOptions {
    std::int64_t max_pixels = kMaxPixels;
    // If the data is truncated or damaged, keep what could be decoded instead of throwing.
    bool keep_damaged = false;
};

// libjpeg-turbo's own structures.
struct JpegState;

// Decodes JPEG through libjpeg-turbo as Pillow does, and with more than 8 bits: slow integer inverse DCT, fancy
// upsampling, CMYK and YCCK with Adobe's inverted values. What Pillow refuses is an error: truncated data, and a marker
// that has no place in the image. Huffman codes that cannot be are none, as nobody can tell from them which pixels are
// wrong. Throws MediaError. One thread at a time.
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

    // Does the same for planes: nothing is upsampled or converted. libjpeg transforms all columns.
    DecodedPlanes begin_planes(const PlaneRegion& region);

    // Returns the data from its only scan on if the image that was begun has no more than that, and no restart
    // intervals.
    [[nodiscard]] std::optional<Bytes> only_scan() const noexcept;

    // Decodes the rows. Data of rows below `wanted` is looked at only if it has to show whether these rows are whole.
    void decode(RowSink& sink);
    void decode_planes(PlaneSink& sink);

    // Decodes the image whose header was read last, whose frame is not a common one, to gray or RGB. Samples of more
    // than 8 bits are stretched to 16 in the machine's order. Rows begin `row_bytes` apart.
    void decode_whole(std::uint8_t* to, std::size_t row_bytes);

    // Returns the name of the decoder of the last image's Huffman codes, as in entropy_decoder_names.
    [[nodiscard]] std::string_view entropy_decoder() const noexcept;

    // Returns whether data was missing, or was too much, among the coded pixels of the last image. libjpeg goes on
    // then, and paints what is missing, as it does in Pillow.
    [[nodiscard]] bool lost() const noexcept;

    // Returns what is wrong with the data of the last image, which was kept; nothing if all is well.
    [[nodiscard]] std::string damage() const;

  private:
    // Begins to decode all columns in the colours that are stored, row by row.
    void begin_rows(const Box& wanted, Channels channels);

    // Makes room for a row in these colours.
    void reserve_row();

    // Looks for what Pillow notices once it has all rows: markers that do not belong there.
    void check_end();

    std::unique_ptr<JpegState> state_;
};

}  // namespace spdl
