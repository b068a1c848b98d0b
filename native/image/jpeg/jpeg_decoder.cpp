#include <jerror.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "image/jpeg/jpeg.h"

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include "core/errors.h"
#include "core/geometry.h"
#include "image/jpeg/entropy_decoder.h"

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

namespace {

constexpr std::string_view kOwn = "own";

std::atomic<bool>& own_selected() {
    static std::atomic<bool> selected = EntropyDecoder::kCompiledIn;
    return selected;
}

}  // namespace

std::vector<std::string_view> entropy_decoder_names() {
    if (EntropyDecoder::kCompiledIn) {
        return {kOwn, "libjpeg"};
    }
    return {"libjpeg"};
}

bool select_entropy_decoder(std::string_view name) {
    const auto names = entropy_decoder_names();
    const auto found = name.empty() ? names.begin() : std::ranges::find(names, name);
    if (found == names.end()) {
        return false;
    }
    own_selected().store(*found == kOwn, std::memory_order_relaxed);
    return true;
}

namespace {

// The value that longjmp passes other than for a failure.
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
    own_entropy = own_selected().load(std::memory_order_relaxed) && entropy.take_over(codec);
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

namespace {

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

unsigned wide_sample(const std::uint8_t* row, std::size_t index) {
    std::uint16_t sample = 0;
    std::memcpy(&sample, row + 2 * index, 2);
    return sample;
}

// Stretches samples of up to 16 bits to the levels of others: white becomes white.
class Stretch {
  public:
    Stretch(int bits, unsigned levels) : most_((1U << static_cast<unsigned>(bits)) - 1), levels_(levels) {}

    unsigned operator()(unsigned sample) const { return (std::min(sample, most_) * levels_ + most_ / 2) / most_; }

  private:
    unsigned most_;
    unsigned levels_;
};

}  // namespace

void JpegState::narrow_row() {
    const int bits = codec.data_precision;
    const std::size_t count =
        static_cast<std::size_t>(codec.output_width) * static_cast<std::size_t>(codec.output_components);
    std::uint8_t* const row = stored_row.data();
    if (bits < 8) {
        const Stretch stretch(bits, 0xff);
        for (std::size_t i = 0; i < count; ++i) {
            row[i] = static_cast<std::uint8_t>(stretch(row[i]));
        }
    } else if (bits > 8) {
        for (std::size_t i = 0; i < count; ++i) {
            row[i] = static_cast<std::uint8_t>(wide_sample(row, i) >> (bits - 8));
        }
    }
}

void JpegState::convert_row(std::uint8_t* to) {
    narrow_row();
    const std::uint8_t* from = stored_row.data();
    const auto width = static_cast<std::size_t>(codec.output_width);
    if (codec.out_color_space == JCS_GRAYSCALE) {
        for (std::size_t x = 0; x < width; ++x) {
            std::fill_n(to + 3 * x, 3, from[x]);
        }
        return;
    }
    const bool inks = codec.out_color_space == JCS_CMYK;
    for (std::size_t x = 0; x < width; ++x, from += inks ? 4 : 3, to += 3) {
        if (inks) {
            cmyk_to_rgb(from, to);
        } else {
            std::copy_n(from, 3, to);
        }
        if (channels == Channels::kBgr) {
            std::swap(to[0], to[2]);
        } else if (channels == Channels::kGray) {
            std::fill_n(to, 3, gray_of({to[0], to[1], to[2]}));
        }
    }
}

PackedFormat JpegState::packed_format() const {
    const bool wide = codec.data_precision > 8 && codec.num_components != 4;
    return {codec.num_components == 1 ? 1 : 3, wide ? 2 : 1};
}

void JpegState::pack_row(std::uint8_t* to) {
    const PackedFormat format = packed_format();
    const std::size_t count = static_cast<std::size_t>(codec.output_width) * static_cast<std::size_t>(format.channels);
    if (format.sample_bytes == 2) {
        const Stretch stretch(codec.data_precision, 0xffff);
        for (std::size_t i = 0; i < count; ++i) {
            const auto sample = static_cast<std::uint16_t>(stretch(wide_sample(stored_row.data(), i)));
            std::memcpy(to + 2 * i, &sample, 2);
        }
    } else if (format.channels == 1) {
        narrow_row();
        std::memcpy(to, stored_row.data(), count);
    } else {
        convert_row(to);
    }
}

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

namespace {

thread_local std::string_view last_entropy = "libjpeg";

class TurboDecoder final : public Decoder {
  public:
    bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                 const DecodeOptions& decode) const noexcept override {
        return image.packet == nullptr && is_jpeg(image.bytes) && !demux.need_ffmpeg() && !decode.need_ffmpeg();
    }

    MemoryKind output() const noexcept override { return MemoryKind::kHost; }

    ImageShape open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) override {
        const JpegHeader header = jpeg_.read_header(image.bytes, {decode.max_pixels, decode.keep_damaged});
        return {header.size, {}, header.chroma_grid, header.scalable, "mjpeg", header.pixel_format, header.planes};
    }

    void decode(const Region& region, Place& place) override {
        const Box decoded = jpeg_.begin(region.eighths, region.box, region.channels);
        last_entropy = jpeg_.entropy_decoder();
        jpeg_.decode(place.begin({decoded.size().width, region.box.left - decoded.left}));
    }

    void decode_planes(const PlaneRegion& region, PlanePlace& place) override {
        const DecodedPlanes planes = jpeg_.begin_planes(region);
        last_entropy = jpeg_.entropy_decoder();
        jpeg_.decode_planes(place.begin(planes));
    }

    // FFmpeg has the planes of common ones for filters. It does not decode all others, and takes ink for light.
    bool packs(const EncodedImage& image) const noexcept override {
        const JpegFrame frame = jpeg_frame(image.bytes);
        return !frame.common() || frame.components == 4;
    }

    void decode_whole(std::uint8_t* to, std::size_t row_bytes) override {
        jpeg_.decode_whole(to, row_bytes);
        last_entropy = jpeg_.entropy_decoder();
    }

    std::string damage() const override { return jpeg_.damage(); }

  private:
    JpegDecoder jpeg_;
};

}  // namespace

const Backend libjpeg_turbo_backend{"libjpeg-turbo", "decodes JPEG only, without FFmpeg's options and filters",
                                    make_decoder<TurboDecoder>};

std::tuple<int, int, int> libjpeg_turbo_version() noexcept {
    constexpr int kNumber = LIBJPEG_TURBO_VERSION_NUMBER;
    return {kNumber / 1'000'000, kNumber / 1000 % 1000, kNumber % 1000};
}

std::string_view last_entropy_decoder() noexcept {
    return last_entropy;
}

}  // namespace spdl
