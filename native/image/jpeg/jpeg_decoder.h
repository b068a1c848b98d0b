#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/geometry.h"
#include "core/sinks.h"
#include "image/jpeg/entropy_decoder.h"
#include "image/jpeg/jpeg_header.h"
#include "media/decoder.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

// Returns the decoders of Huffman codes of a JPEG in this build, the preferred one first: "own", if it is compiled in,
// and "libjpeg".
std::vector<std::string_view> entropy_decoder_names();

// Selects the named decoder for all threads; an empty name selects the preferred one. Returns false if there is no such
// decoder.
bool select_entropy_decoder(std::string_view name);

// Returns whether JPEGs are offered to our own decoder.
bool own_entropy_decoder_selected() noexcept;

// Everything that a longjmp leaves in place.
struct JpegState : JpegFailure {
    jpeg_decompress_struct codec{};
    jpeg_source_mgr source{};
    jpeg_progress_mgr progress{};
    bool keep_damaged = false;
    bool truncated = false;
    bool damaged = false;
    bool in_header = false;
    bool lost = false;           // libjpeg did not find what it expected among the coded pixels, and went on.
    bool behind_pixels = false;  // All rows are decoded.
    Channels channels = Channels::kRgb;
    Box wanted;
    EntropyDecoder entropy;
    bool own_entropy = false;  // `entropy` decodes the image.
    AlignedBuffer stored_row;  // For rows whose pixels libjpeg does not give in our format.
    Box wanted_chroma;         // If planes are decoded.
    JpegFrame frame;

    static JpegState& of(j_common_ptr codec) { return static_cast<JpegState&>(JpegFailure::of(codec)); }
    static JpegState& of(j_decompress_ptr codec) { return of(reinterpret_cast<j_common_ptr>(codec)); }

    // Each runs libjpeg with the error jump set, and returns false if libjpeg gave up. No object with a destructor may
    // live in these frames: longjmp would skip it.
    bool create() noexcept;
    bool header() noexcept;
    bool start(JDIMENSION& left, JDIMENSION& width) noexcept;
    bool skip_rows() noexcept;
    bool rows(RowSink& sink) noexcept;
    bool converted_rows(RowSink& sink) noexcept;
    bool packed_rows(std::uint8_t* to, std::size_t row_bytes) noexcept;
    bool planes(PlaneSink& sink) noexcept;
    bool remaining_rows() noexcept;
    bool end() noexcept;

    // Returns whether rows need a conversion in addition to libjpeg's.
    [[nodiscard]] bool converts() const {
        return codec.out_color_space == JCS_CMYK || codec.out_color_space == JCS_GRAYSCALE || rare();
    }
    void convert_row(std::uint8_t* to);

    // Returns whether libjpeg gives nothing but whole rows: it neither crops, nor scales, nor skips, nor makes gray of
    // colours.
    [[nodiscard]] bool rare() const { return frame.lossless() || codec.data_precision != 8; }

    // Returns whether its colours are shown without a conversion.
    [[nodiscard]] bool is_stored_as_shown() const {
        return codec.jpeg_color_space == JCS_GRAYSCALE || codec.jpeg_color_space == JCS_RGB ||
               codec.jpeg_color_space == JCS_CMYK;
    }

    // The format of a whole decoded image: gray or RGB, of 16 bits if its samples have more than 8.
    [[nodiscard]] PackedFormat packed_format() const;
    void pack_row(std::uint8_t* to);

    // Reads a stored row of the image. Returns whether there was one.
    bool read_row();

    // Makes 8 bits of the samples of that row.
    void narrow_row();

    // The rows of a plane that one call of jpeg_read_raw_data writes.
    [[nodiscard]] int rows_together(Plane plane) const {
        const jpeg_component_info& component = codec.comp_info[plane];
        return component.v_samp_factor * scaled_block(component);
    }

    // The side of a block after its inverse DCT.
    static int scaled_block(const jpeg_component_info& component) {
#if JPEG_LIB_VERSION >= 70
        return component.DCT_v_scaled_size;
#else
        return component.DCT_scaled_size;
#endif
    }

    // Makes that call, whose rows `row` gives room for. If they are not needed, nothing is computed or written.
    template <typename Row>
    void read_planes(bool needed, const Row& row);

    static constexpr const char* kDamage = "the data is damaged: behind its pixels it has what does not belong there: ";

    [[nodiscard]] std::string damage() const { return std::string(kDamage) + message; }

    [[noreturn]] void raise();
};

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
class JpegDecoder {
  public:
    JpegDecoder();
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;

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

}  // namespace spdl
