#pragma once

#include <setjmp.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/geometry.h"
#include "core/non_copyable.h"
#include "media/decoder.h"
#include "media/pixel_format.h"
#include "media/place.h"

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

// Returns the decoders of Huffman codes of a JPEG in this build, the preferred one first: "own", if it is compiled in,
// and "libjpeg".
std::vector<std::string_view> entropy_decoder_names();

// Selects the named decoder for all threads; an empty name selects the preferred one. Returns false if there is no such
// decoder.
bool select_entropy_decoder(std::string_view name);

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
// that has no place in the image. Impossible Huffman codes are not an error, as they do not show which pixels are
// wrong. Throws MediaError. One thread at a time.
class JpegDecoder : NonCopyable {
  public:
    JpegDecoder();
    ~JpegDecoder();

    // Reads the header; `bytes` must stay in place until decode has returned.
    JpegHeader read_header(Bytes bytes, const JpegOptions& options);

    // Returns the size of the image whose header was read last, decoded to `eighths` (8, 4, 2 or 1) of it.
    Size scaled_size(int eighths);

    // Begins to decode only `wanted`, a part of that size. Its pixels are the same as in a whole decode. Returns the
    // columns that the rows will have: the wanted ones, and as few more as the format allows.
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

// Decodes JPEG by libjpeg-turbo.
extern const Backend libjpeg_turbo_backend;

// Returns the version of libjpeg-turbo that this was built with.
std::tuple<int, int, int> libjpeg_turbo_version() noexcept;

// Returns the name, one of entropy_decoder_names, of the decoder of the last JPEG's Huffman codes on this thread.
std::string_view last_entropy_decoder() noexcept;

struct JpegQuality {
    int quality = 75;        // From 1 to 100, as libjpeg scales its tables.
    Size chroma_grid{2, 2};  // How many pixels share a chroma sample.
};

// Returns whether libjpeg-turbo takes pixels of this format.
bool jpeg_takes(std::string_view pixel_format);

// Returns the picture as a JPEG, encoded by libjpeg-turbo with Pillow's settings. Pixels of yuv444p are JPEG's own:
// they use all levels and are not converted. Throws MediaError.
AlignedBuffer encode_jpeg(const Picture& picture, const JpegQuality& quality);

}  // namespace spdl
