#include "image/jpeg/jpeg_state.h"

#include <jerror.h>

#include <algorithm>
#include <cstdint>

#include "core/limits.h"
#include "image/jpeg/entropy_choice.h"

namespace spdl {
namespace {

// What longjmp hands over besides a failure.
constexpr int kDataEnded = 2;

// The marker that no file should have. libjpeg passes over it, Pillow does not when it reads headers.
constexpr int kTemporary = 1;

void on_message(j_common_ptr codec, int /*level*/) {
    JpegState& state = JpegState::of(codec);
    const jpeg_error_mgr& errors = *codec->err;
    if (errors.msg_code == JWRN_HIT_MARKER || errors.msg_code == JWRN_MUST_RESYNC ||
        (errors.msg_code == JWRN_EXTRANEOUS_DATA && !state.in_header && !state.behind_pixels)) {
        state.lost = true;
    } else if (errors.msg_code == JTRC_PARMLESS_MARKER && errors.msg_parm.i[0] == kTemporary && state.in_header) {
        std::snprintf(state.message, sizeof(state.message), "the data is damaged: it has a marker 0x01 in its header");
        longjmp(state.on_error, JpegState::kFailed);
    }
}

void on_source(j_decompress_ptr /*codec*/) {}

boolean on_more_input(j_decompress_ptr codec) {
    JpegState& state = JpegState::of(codec);
    if (state.behind_pixels) {
        longjmp(state.on_error, kDataEnded);
    }
    state.truncated = true;
    if (state.keep_damaged) {
        // libjpeg fills the missing part with gray when it finds the end of the image.
        static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
        codec->src->next_input_byte = kEnd;
        codec->src->bytes_in_buffer = sizeof(kEnd);
        return TRUE;
    }
    std::snprintf(state.message, sizeof(state.message), "the data is truncated: it ends before the image does");
    longjmp(state.on_error, JpegState::kFailed);
}

void on_skip(j_decompress_ptr codec, long count) {
    jpeg_source_mgr& source = *codec->src;
    if (count <= 0) {
        return;
    }
    if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
        on_more_input(codec);
        return;
    }
    source.next_input_byte += count;
    source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

void on_progress(j_common_ptr common) {
    const jpeg_decompress_struct& codec = *reinterpret_cast<j_decompress_ptr>(common);
    const std::int64_t pixels = static_cast<std::int64_t>(codec.image_width) * codec.image_height;
    const int most = pixels < kLargeJpeg ? kMaxJpegScans : kMaxLargeJpegScans;
    if (codec.input_scan_number > most) {
        JpegState& state = JpegState::of(common);
        std::snprintf(state.message, sizeof(state.message), "it has more than %d scans, too many for its size", most);
        longjmp(state.on_error, JpegState::kFailed);
    }
}

}  // namespace

bool JpegState::create() noexcept {
    handle_errors_of(reinterpret_cast<j_common_ptr>(&codec));
    errors.emit_message = on_message;
    source.init_source = on_source;
    source.fill_input_buffer = on_more_input;
    source.skip_input_data = on_skip;
    source.resync_to_restart = jpeg_resync_to_restart;
    source.term_source = on_source;
    progress.progress_monitor = on_progress;
    if (setjmp(on_error) != 0) {
        return false;
    }
    jpeg_create_decompress(&codec);
    return true;
}

bool JpegState::header() noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    // A codec that is used again would keep the tables of the last image, and use them for an image without tables.
    jpeg_destroy_decompress(&codec);
    jpeg_create_decompress(&codec);
    codec.src = &source;
    codec.progress = &progress;
    behind_pixels = false;
    in_header = true;
    jpeg_read_header(&codec, TRUE);
    in_header = false;
    return true;
}

bool JpegState::start(JDIMENSION& left, JDIMENSION& width) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    own_entropy = false;
    lost = false;
    jpeg_start_decompress(&codec);
    own_entropy = own_entropy_decoder_selected() && entropy.take_over(codec);
    if (width < codec.output_width) {
        jpeg_crop_scanline(&codec, &left, &width);
    }
    return true;
}

bool JpegState::skip_rows() noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    const auto top = static_cast<JDIMENSION>(wanted.top);
    while (codec.output_scanline < top) {
        if (rare()) {
            read_row();
        } else {
            jpeg_skip_scanlines(&codec, top - codec.output_scanline);
        }
    }
    return true;
}

bool JpegState::rows(RowSink& sink) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    while (static_cast<int>(codec.output_scanline) < wanted.bottom) {
        JSAMPROW targets[RowSink::kMaxRows];
        const int row = static_cast<int>(codec.output_scanline);
        const int y = row - wanted.top;
        const int count = std::min(RowSink::kMaxRows, wanted.bottom - row);
        for (int i = 0; i < count; ++i) {
            targets[i] = sink.row(y + i);
        }
        sink.commit(y, static_cast<int>(jpeg_read_scanlines(&codec, targets, static_cast<JDIMENSION>(count))));
    }
    return true;
}

bool JpegState::converted_rows(RowSink& sink) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    while (static_cast<int>(codec.output_scanline) < wanted.bottom) {
        const int y = static_cast<int>(codec.output_scanline) - wanted.top;
        if (read_row()) {
            convert_row(sink.row(y));
            sink.commit(y, 1);
        }
    }
    return true;
}

bool JpegState::packed_rows(std::uint8_t* to, std::size_t row_bytes) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    while (codec.output_scanline < codec.output_height) {
        const std::size_t y = codec.output_scanline;
        if (read_row()) {
            pack_row(to + row_bytes * y);
        }
    }
    return true;
}

bool JpegState::read_row() {
#if LIBJPEG_TURBO_VERSION_NUMBER >= 3000000
    if (codec.data_precision > 12) {
        auto* target = reinterpret_cast<J16SAMPROW>(stored_row.data());
        return jpeg16_read_scanlines(&codec, &target, 1) == 1;
    }
    if (codec.data_precision > 8) {
        auto* target = reinterpret_cast<J12SAMPROW>(stored_row.data());
        return jpeg12_read_scanlines(&codec, &target, 1) == 1;
    }
#endif
    JSAMPROW target = stored_row.data();
    return jpeg_read_scanlines(&codec, &target, 1) == 1;
}

template <typename Row>
void JpegState::read_planes(bool needed, const Row& row) {
    JSAMPROW rows[kPlanes][MAX_SAMP_FACTOR * DCTSIZE];
    JSAMPARRAY planes[kPlanes];
    for (const Plane plane : {kLuma, kBlueChroma, kRedChroma}) {
        planes[plane] = rows[plane];
        for (int i = 0; i < rows_together(plane); ++i) {
            rows[plane][i] = row(plane, i);
        }
        codec.comp_info[plane].component_needed = needed ? TRUE : FALSE;
    }
    jpeg_read_raw_data(&codec, planes, static_cast<JDIMENSION>(rows_together(kLuma)));
}

bool JpegState::planes(PlaneSink& sink) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    const int luma = rows_together(kLuma);
    const int chroma = rows_together(kBlueChroma);
    int next_luma = 0;
    int next_chroma = 0;
    while (next_luma < wanted.bottom || next_chroma < wanted_chroma.bottom) {
        const auto row = [&](Plane plane, int i) {
            return sink.row(plane, i + (plane == kLuma ? next_luma - wanted.top : next_chroma - wanted_chroma.top));
        };
        const bool needed = next_luma + luma > wanted.top || next_chroma + chroma > wanted_chroma.top;
        read_planes(needed, row);
        next_luma += luma;
        next_chroma += chroma;
        sink.commit(next_luma - wanted.top, next_chroma - wanted_chroma.top);
    }
    return true;
}

bool JpegState::remaining_rows() noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    while (codec.raw_data_out != FALSE && codec.output_scanline < codec.output_height) {
        read_planes(false, [this](Plane /*plane*/, int /*row*/) { return stored_row.data(); });
    }
    while (codec.output_scanline < codec.output_height) {
        read_row();
    }
    return true;
}

bool JpegState::end() noexcept {
    switch (setjmp(on_error)) {
        case 0:
            behind_pixels = true;
            jpeg_finish_decompress(&codec);
            return true;
        case kDataEnded:
            return true;  // The rows are all there.
        default:
            return false;
    }
}

void JpegState::raise() {
    jpeg_abort_decompress(&codec);  // For a large image, it may hold much memory.
    JpegFailure::raise(std::string("cannot decode the JPEG: ") + (behind_pixels ? kDamage : ""));
}

}  // namespace spdl
