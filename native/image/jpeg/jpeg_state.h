#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/aligned_buffer.h"
#include "core/channels.h"
#include "core/geometry.h"
#include "core/plane_sink.h"
#include "core/row_sink.h"
#include "image/jpeg/entropy_decoder.h"
#include "image/jpeg/jpeg_failure.h"
#include "image/jpeg/jpeg_frame.h"
#include "media/packed_format.h"

namespace spdl {

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

    // Returns whether rows need a conversion besides libjpeg's.
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

    // What a whole image is decoded to: gray or RGB, of 16 bits if its samples have more than 8.
    [[nodiscard]] PackedFormat packed_format() const;
    void pack_row(std::uint8_t* to);

    // Reads a row of the image as it is stored. Returns whether there was one.
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

}  // namespace spdl
