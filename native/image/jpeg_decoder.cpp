#include "image/jpeg_decoder.h"

// jpeglib.h wants these first.
#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>

#include "core/aligned_buffer.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "image/entropy_choice.h"
#include "image/entropy_decoder.h"

namespace spdl {

// Everything that a longjmp leaves in place.
struct JpegState {
    jpeg_decompress_struct codec{};
    jpeg_error_mgr errors{};
    jpeg_source_mgr source{};
    jpeg_progress_mgr progress{};
    jmp_buf on_error{};
    char message[JMSG_LENGTH_MAX]{};
    bool out_of_memory = false;
    AlignedBuffer cmyk_row;
    EntropyDecoder entropy;
    bool own_entropy = false;  // It decodes the image.

    static JpegState& of(j_common_ptr codec) { return *static_cast<JpegState*>(codec->client_data); }
    static JpegState& of(j_decompress_ptr codec) { return *static_cast<JpegState*>(codec->client_data); }

    // Each runs libjpeg with the error jump set, and returns false where libjpeg gave up. No object with a destructor
    // may live in these frames: longjmp would skip it.
    bool create() noexcept;
    bool header() noexcept;
    void start();
    bool rows(RowSink& sink) noexcept;
    bool cmyk_rows(RowSink& sink) noexcept;

    [[noreturn]] void raise();
};

namespace {

void on_error_exit(j_common_ptr codec) {
    JpegState& state = JpegState::of(codec);
    state.out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
    codec->err->format_message(codec, state.message);
    longjmp(state.on_error, 1);
}

void on_message(j_common_ptr /*codec*/, int /*level*/) {}

void on_output(j_common_ptr /*codec*/) {}

void on_source(j_decompress_ptr /*codec*/) {}

boolean on_more_input(j_decompress_ptr codec) {
    JpegState& state = JpegState::of(codec);
    std::snprintf(state.message, sizeof(state.message), "the data is truncated: it ends before the image does");
    longjmp(state.on_error, 1);
}

void on_skip(j_decompress_ptr codec, long count) {
    jpeg_source_mgr& source = *codec->src;
    if (count <= 0) {
        return;
    }
    if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
        on_more_input(codec);
    }
    source.next_input_byte += count;
    source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

void on_progress(j_common_ptr common) {
    if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMaxJpegScans) {
        JpegState& state = JpegState::of(common);
        std::snprintf(state.message, sizeof(state.message), "it has more than %d scans", kMaxJpegScans);
        longjmp(state.on_error, 1);
    }
}

// a * b / 255, rounded.
unsigned multiply(unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return ((product >> 8U) + product) >> 8U;
}

// Adobe's files, the only ones around, store the inks inverted; the conversion is Pillow's.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, unsigned width) {
    for (unsigned x = 0; x < width; ++x) {
        const unsigned white = cmyk[3];
        for (int channel = 0; channel < 3; ++channel) {
            rgb[channel] = static_cast<std::uint8_t>(white - multiply(255U - cmyk[channel], white));
        }
        cmyk += 4;
        rgb += 3;
    }
}

const char* pixel_format(const jpeg_decompress_struct& codec) {
    if (codec.num_components == 1) {
        return "gray";
    }
    if (codec.num_components == 4) {
        return codec.jpeg_color_space == JCS_YCCK ? "yuva444p" : "gbrap";
    }
    if (codec.jpeg_color_space == JCS_RGB) {
        return "gbrp";
    }
    const int horizontal = codec.comp_info[0].h_samp_factor / std::max(codec.comp_info[1].h_samp_factor, 1);
    const int vertical = codec.comp_info[0].v_samp_factor / std::max(codec.comp_info[1].v_samp_factor, 1);
    if (vertical == 1) {
        return horizontal == 1 ? "yuvj444p" : horizontal == 2 ? "yuvj422p" : "yuvj411p";
    }
    return horizontal == 1 ? "yuvj440p" : "yuvj420p";
}

}  // namespace

bool is_jpeg(Bytes bytes) noexcept {
    return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

bool JpegState::create() noexcept {
    codec.err = jpeg_std_error(&errors);
    codec.client_data = this;
    errors.error_exit = on_error_exit;
    errors.emit_message = on_message;
    errors.output_message = on_output;
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
    codec.client_data = this;
    codec.src = &source;
    codec.progress = &progress;
    return true;
}

bool JpegState::header() noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    jpeg_abort_decompress(&codec);
    codec.src = &source;
    jpeg_read_header(&codec, TRUE);
    return true;
}

void JpegState::start() {
    own_entropy = false;
    jpeg_start_decompress(&codec);
    own_entropy = own_entropy_decoder_selected() && entropy.take_over(codec);
}

bool JpegState::rows(RowSink& sink) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    codec.out_color_space = JCS_RGB;
    start();
    while (codec.output_scanline < codec.output_height) {
        JSAMPROW targets[RowSink::kMaxRows];
        const int y = static_cast<int>(codec.output_scanline);
        const int count = std::min(RowSink::kMaxRows, static_cast<int>(codec.output_height) - y);
        for (int i = 0; i < count; ++i) {
            targets[i] = sink.row(y + i);
        }
        sink.commit(y, static_cast<int>(jpeg_read_scanlines(&codec, targets, static_cast<JDIMENSION>(count))));
    }
    // Not jpeg_finish_decompress: nothing that comes after the last row matters.
    jpeg_abort_decompress(&codec);
    return true;
}

bool JpegState::cmyk_rows(RowSink& sink) noexcept {
    if (setjmp(on_error) != 0) {
        return false;
    }
    codec.out_color_space = JCS_CMYK;
    start();
    while (codec.output_scanline < codec.output_height) {
        JSAMPROW target = cmyk_row.data();
        const int y = static_cast<int>(codec.output_scanline);
        if (jpeg_read_scanlines(&codec, &target, 1) == 1) {
            cmyk_to_rgb(target, sink.row(y), codec.output_width);
            sink.commit(y, 1);
        }
    }
    jpeg_abort_decompress(&codec);
    return true;
}

void JpegState::raise() {
    if (out_of_memory) {
        throw std::bad_alloc();
    }
    throw MediaError(std::string("cannot decode the JPEG: ") + message);
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<JpegState>()) {
    if (!state_->create()) {
        state_->raise();
    }
}

JpegDecoder::~JpegDecoder() {
    jpeg_destroy_decompress(&state_->codec);
}

JpegHeader JpegDecoder::read_header(Bytes bytes) {
    state_->source.next_input_byte = bytes.data();
    state_->source.bytes_in_buffer = bytes.size();
    if (!state_->header()) {
        state_->raise();
    }
    const jpeg_decompress_struct& codec = state_->codec;
    const Size size{static_cast<int>(codec.image_width), static_cast<int>(codec.image_height)};
    check_size(size, "cannot decode the JPEG: its size");
    return {size, pixel_format(codec)};
}

std::string_view JpegDecoder::entropy_decoder() const noexcept {
    return state_->own_entropy ? "own" : "libjpeg";
}

void JpegDecoder::decode(RowSink& sink) {
    JpegState& state = *state_;
    bool complete = false;
    if (state.codec.num_components == 4) {
        state.cmyk_row.reserve(4 * static_cast<std::size_t>(state.codec.image_width));
        complete = state.cmyk_rows(sink);
    } else {
        complete = state.rows(sink);
    }
    if (!complete) {
        state.raise();
    }
}

}  // namespace spdl
