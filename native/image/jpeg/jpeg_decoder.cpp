#include "image/jpeg/jpeg_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>

#include "core/limits.h"
#include "core/media_error.h"
#include "image/jpeg/jpeg_format.h"
#include "image/jpeg/jpeg_frame.h"
#include "image/jpeg/jpeg_state.h"

namespace spdl {

bool is_jpeg(Bytes bytes) noexcept {
    return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<JpegState>()) {
    if (!state_->create()) {
        state_->raise();
    }
}

JpegDecoder::~JpegDecoder() {
    jpeg_destroy_decompress(&state_->codec);
}

JpegHeader JpegDecoder::read_header(Bytes bytes, const JpegOptions& options) {
    state_->source.next_input_byte = bytes.data();
    state_->source.bytes_in_buffer = bytes.size();
    state_->keep_damaged = options.keep_damaged;
    state_->truncated = false;
    state_->damaged = false;
    state_->frame = jpeg_frame(bytes);
    if (state_->frame.is_jpeg_ls()) {
        throw MediaError(
            "cannot decode the JPEG: it is a JPEG-LS, which is not read. Convert it, or name FFmpeg's demuxer for it: "
            "demux_config(format=\"jpegls_pipe\")");
    }
    if (!state_->header()) {
        state_->raise();
    }
    const jpeg_decompress_struct& codec = state_->codec;
    const Size size{static_cast<int>(codec.image_width), static_cast<int>(codec.image_height)};
    check_source_size(size, "cannot decode the JPEG: its size", options.max_pixels);
    if (state_->frame.lossless() && !state_->is_stored_as_shown()) {
        throw MediaError(
            "cannot decode the JPEG: it is lossless, and its colours are neither gray nor RGB nor CMYK, which "
            "libjpeg-turbo does not convert");
    }
    const bool rare = state_->rare();
    const bool planes = state_->frame.common() && codec.num_components != 4;
    const char* const stored = planes ? pixel_format(codec) : state_->packed_format().name();
    return {size, stored, rare ? Size{1, 1} : chroma_grid(codec), has_planes(codec), !rare};
}

Size JpegDecoder::scaled_size(int eighths) {
    const auto scaled = [&](JDIMENSION side) {
        return static_cast<int>((static_cast<std::int64_t>(side) * eighths + 7) / 8);
    };
    return {scaled(state_->codec.image_width), scaled(state_->codec.image_height)};
}

Box JpegDecoder::begin(int eighths, const Box& wanted, Channels channels) {
    JpegState& state = *state_;
    if (state.rare()) {
        begin_rows(wanted, channels);
        return {0, wanted.top, static_cast<int>(state.codec.output_width), wanted.bottom};
    }
    state.wanted = wanted;
    state.channels = channels;
    state.codec.scale_num = static_cast<unsigned>(eighths);
    state.codec.scale_denom = 8;
    if (state.codec.num_components == 4) {
        state.codec.out_color_space = JCS_CMYK;
    } else if (channels == Channels::kGray) {
        state.codec.out_color_space = JCS_GRAYSCALE;
    } else {
        state.codec.out_color_space = channels == Channels::kBgr ? JCS_EXT_BGR : JCS_RGB;
    }
    // At the edge of the decoded region, chroma is upsampled from one side alone, so the wanted columns lie further in.
    constexpr int kMargin = 2;
    const int image_width = scaled_size(eighths).width;
    const int from = std::max(wanted.left - kMargin, 0);
    auto left = static_cast<JDIMENSION>(from);
    auto width = static_cast<JDIMENSION>(std::min(wanted.right + kMargin, image_width) - from);
    if (!state.start(left, width) || !state.skip_rows()) {
        state.raise();
    }
    if (state.converts()) {
        reserve_row();
    }
    return {static_cast<int>(left), wanted.top, static_cast<int>(left + state.codec.output_width), wanted.bottom};
}

void JpegDecoder::begin_rows(const Box& wanted, Channels channels) {
    JpegState& state = *state_;
    jpeg_decompress_struct& codec = state.codec;
    state.wanted = wanted;
    state.channels = channels;
    if (codec.num_components == 4) {
        codec.out_color_space = JCS_CMYK;
    } else {
        codec.out_color_space = codec.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    }
    JDIMENSION left = 0;
    JDIMENSION width = std::numeric_limits<JDIMENSION>::max();
    if (!state.start(left, width)) {
        state.raise();
    }
    reserve_row();
    if (!state.skip_rows()) {
        state.raise();
    }
}

void JpegDecoder::reserve_row() {
    // Four samples of two bytes for each pixel.
    state_->stored_row.reserve(8 * static_cast<std::size_t>(state_->codec.output_width));
}

DecodedPlanes JpegDecoder::begin_planes(const PlaneRegion& region) {
    JpegState& state = *state_;
    jpeg_decompress_struct& codec = state.codec;
    state.wanted = region.luma;
    state.wanted_chroma = region.chroma;
    codec.scale_num = static_cast<unsigned>(region.eighths);
    codec.scale_denom = 8;
    codec.raw_data_out = TRUE;
    codec.out_color_space = JCS_YCbCr;
    JDIMENSION left = 0;
    JDIMENSION width = std::numeric_limits<JDIMENSION>::max();
    if (!state.start(left, width)) {
        state.raise();
    }
    const auto rows = [&](Plane plane, const Box& wanted) {
        const jpeg_component_info& component = codec.comp_info[plane];
        return PlaneRows{static_cast<int>(component.width_in_blocks) * JpegState::scaled_block(component), wanted.left,
                         state.rows_together(plane)};
    };
    return {rows(kLuma, region.luma), rows(kBlueChroma, region.chroma)};
}

std::optional<Bytes> JpegDecoder::only_scan() const noexcept {
    jpeg_decompress_struct& codec = state_->codec;
    if (jpeg_has_multiple_scans(&codec) != FALSE || codec.restart_interval != 0) {
        return std::nullopt;
    }
    return Bytes(codec.src->next_input_byte, codec.src->bytes_in_buffer);
}

void JpegDecoder::decode(RowSink& sink) {
    JpegState& state = *state_;
    const bool complete = state.converts() ? state.converted_rows(sink) : state.rows(sink);
    if (!complete) {
        state.raise();
    }
    check_end();
    jpeg_abort_decompress(&state.codec);
}

void JpegDecoder::decode_planes(PlaneSink& sink) {
    if (!state_->planes(sink)) {
        state_->raise();
    }
    check_end();
    jpeg_abort_decompress(&state_->codec);
}

void JpegDecoder::decode_whole(std::uint8_t* to, std::size_t row_bytes) {
    JpegState& state = *state_;
    begin_rows(whole(scaled_size(8)), Channels::kRgb);
    if (!state.packed_rows(to, row_bytes)) {
        state.raise();
    }
    check_end();
    jpeg_abort_decompress(&state.codec);
}

void JpegDecoder::check_end() {
    JpegState& state = *state_;
    // The end of a picture that is cut is looked at only if the part was damaged: a marker in its middle may be the
    // reason.
    if (state.codec.output_scanline < state.codec.output_height && lost()) {
        reserve_row();
        if (!state.remaining_rows()) {
            state.raise();
        }
    }
    // Planes are read in whole blocks, which may reach beyond the last row.
    if (state.codec.output_scanline >= state.codec.output_height && !state.end()) {
        if (!state.keep_damaged || state.out_of_memory) {
            state.raise();
        }
        state.damaged = true;
    }
}

std::string_view JpegDecoder::entropy_decoder() const noexcept {
    return state_->own_entropy ? "own" : "libjpeg";
}

bool JpegDecoder::lost() const noexcept {
    return state_->own_entropy ? state_->entropy.data_ran_out() : state_->lost;
}

std::string JpegDecoder::damage() const {
    if (state_->truncated) {
        return "the data is truncated";
    }
    return state_->damaged ? state_->damage() : "";
}

}  // namespace spdl
