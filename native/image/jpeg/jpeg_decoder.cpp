#include "image/jpeg/jpeg_decoder.h"

// jpeglib.h wants these first.
#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "core/aligned_buffer.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "image/jpeg/entropy_choice.h"
#include "image/jpeg/entropy_decoder.h"
#include "image/jpeg/jpeg_format.h"

namespace spdl {

namespace {

// The side of a block after its inverse DCT.
int scaled_block(const jpeg_component_info& component) {
#if JPEG_LIB_VERSION >= 70
    return component.DCT_v_scaled_size;
#else
    return component.DCT_scaled_size;
#endif
}

}  // namespace

// Everything that a longjmp leaves in place.
struct JpegState {
    jpeg_decompress_struct codec{};
    jpeg_error_mgr errors{};
    jpeg_source_mgr source{};
    jpeg_progress_mgr progress{};
    jmp_buf on_error{};
    char message[JMSG_LENGTH_MAX]{};
    bool out_of_memory = false;
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

    static JpegState& of(j_common_ptr codec) { return *static_cast<JpegState*>(codec->client_data); }
    static JpegState& of(j_decompress_ptr codec) { return *static_cast<JpegState*>(codec->client_data); }

    // Each runs libjpeg with the error jump set, and returns false if libjpeg gave up. No object with a destructor may
    // live in these frames: longjmp would skip it.
    bool create() noexcept;
    bool header() noexcept;
    bool start(JDIMENSION& left, JDIMENSION& width) noexcept;
    bool skip_rows() noexcept;
    bool rows(RowSink& sink) noexcept;
    bool converted_rows(RowSink& sink) noexcept;
    bool planes(PlaneSink& sink) noexcept;
    bool remaining_rows() noexcept;
    bool end() noexcept;

    // Returns whether rows need a conversion besides libjpeg's.
    [[nodiscard]] bool converts() const {
        return codec.out_color_space == JCS_CMYK || codec.out_color_space == JCS_GRAYSCALE;
    }
    void convert_row(std::uint8_t* to) const;

    // The rows of a plane that one call of jpeg_read_raw_data writes.
    [[nodiscard]] int rows_together(Plane plane) const {
        const jpeg_component_info& component = codec.comp_info[plane];
        return component.v_samp_factor * scaled_block(component);
    }

    // Makes that call, whose rows `row` gives room for. If they are not needed, nothing is computed or written.
    template <typename Row>
    void read_planes(bool needed, const Row& row);

    [[nodiscard]] std::string damage() const {
        return std::string("the data is damaged: behind its pixels it has what does not belong there: ") + message;
    }

    [[noreturn]] void raise();
};

namespace {

// What longjmp hands over.
constexpr int kFailed = 1;
constexpr int kDataEnded = 2;

// The marker that no file should have. libjpeg passes over it, Pillow does not when it reads headers.
constexpr int kTemporary = 1;

void on_error_exit(j_common_ptr codec) {
    JpegState& state = JpegState::of(codec);
    state.out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
    codec->err->format_message(codec, state.message);
    longjmp(state.on_error, kFailed);
}

void on_message(j_common_ptr codec, int /*level*/) {
    JpegState& state = JpegState::of(codec);
    const jpeg_error_mgr& errors = *codec->err;
    if (errors.msg_code == JWRN_HIT_MARKER || errors.msg_code == JWRN_MUST_RESYNC ||
        (errors.msg_code == JWRN_EXTRANEOUS_DATA && !state.in_header && !state.behind_pixels)) {
        state.lost = true;
    } else if (errors.msg_code == JTRC_PARMLESS_MARKER && errors.msg_parm.i[0] == kTemporary && state.in_header) {
        std::snprintf(state.message, sizeof(state.message), "the data is damaged: it has a marker 0x01 in its header");
        longjmp(state.on_error, kFailed);
    }
}

void on_output(j_common_ptr /*codec*/) {}

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
    longjmp(state.on_error, kFailed);
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
        longjmp(state.on_error, kFailed);
    }
}

// a * b / 255, rounded.
unsigned multiply(unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return ((product >> 8U) + product) >> 8U;
}

// Adobe's files, the only ones in use, store the inks inverted. The conversion is Pillow's.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb) {
    const unsigned white = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
        rgb[channel] = static_cast<std::uint8_t>(white - multiply(255U - cmyk[channel], white));
    }
}

// ITU-R 601-2, like JPEG's own luma.
std::uint8_t gray(const std::uint8_t* rgb) {
    return static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16U);
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
        jpeg_skip_scanlines(&codec, top - codec.output_scanline);
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
        JSAMPROW target = stored_row.data();
        const int y = static_cast<int>(codec.output_scanline) - wanted.top;
        if (jpeg_read_scanlines(&codec, &target, 1) == 1) {
            convert_row(sink.row(y));
            sink.commit(y, 1);
        }
    }
    return true;
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
        JSAMPROW target = stored_row.data();
        jpeg_read_scanlines(&codec, &target, 1);
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

void JpegState::convert_row(std::uint8_t* to) const {
    const std::uint8_t* from = stored_row.data();
    const auto width = static_cast<std::size_t>(codec.output_width);
    if (codec.out_color_space == JCS_GRAYSCALE) {
        for (std::size_t x = 0; x < width; ++x) {
            std::fill_n(to + 3 * x, 3, from[x]);
        }
        return;
    }
    for (std::size_t x = 0; x < width; ++x, from += 4, to += 3) {
        cmyk_to_rgb(from, to);
        if (channels == Channels::kBgr) {
            std::swap(to[0], to[2]);
        } else if (channels == Channels::kGray) {
            std::fill_n(to, 3, gray(to));
        }
    }
}

void JpegState::raise() {
    jpeg_abort_decompress(&codec);  // For a large image, it may hold much memory.
    if (out_of_memory) {
        throw std::bad_alloc();
    }
    throw MediaError("cannot decode the JPEG: " + (behind_pixels ? damage() : message));
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
    if (!state_->header()) {
        state_->raise();
    }
    const jpeg_decompress_struct& codec = state_->codec;
    const Size size{static_cast<int>(codec.image_width), static_cast<int>(codec.image_height)};
    check_source_size(size, "cannot decode the JPEG: its size", options.max_pixels);
    return {size, pixel_format(codec), chroma_grid(codec), has_planes(codec)};
}

Size JpegDecoder::scaled_size(int eighths) {
    const auto scaled = [&](JDIMENSION side) {
        return static_cast<int>((static_cast<std::int64_t>(side) * eighths + 7) / 8);
    };
    return {scaled(state_->codec.image_width), scaled(state_->codec.image_height)};
}

Box JpegDecoder::begin(int eighths, const Box& wanted, Channels channels) {
    JpegState& state = *state_;
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
        state.stored_row.reserve(4 * static_cast<std::size_t>(state.codec.output_width));
    }
    return {static_cast<int>(left), wanted.top, static_cast<int>(left + state.codec.output_width), wanted.bottom};
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
        return PlaneRows{static_cast<int>(component.width_in_blocks) * scaled_block(component), wanted.left,
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

void JpegDecoder::check_end() {
    JpegState& state = *state_;
    // The end of a picture that is cut is looked at only if the part was damaged: a marker in its middle may be the
    // reason.
    if (state.codec.output_scanline < state.codec.output_height && lost()) {
        state.stored_row.reserve(4 * static_cast<std::size_t>(state.codec.output_width));
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
