#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/non_copyable.h"
#include "image/jpeg/jpeg.h"

namespace spdl {
namespace {

// Everything that a longjmp leaves in place.
struct Encoder : JpegFailure, NonCopyable {
    jpeg_compress_struct codec{};
    jpeg_destination_mgr destination{};
    std::uint8_t* file = nullptr;
    std::size_t capacity = 0;
    AlignedBuffer row;  // A row is put together from planes here.

    ~Encoder() {
        jpeg_destroy_compress(&codec);
        std::free(file);
    }

    static Encoder& of(j_compress_ptr codec) {
        return static_cast<Encoder&>(JpegFailure::of(reinterpret_cast<j_common_ptr>(codec)));
    }

    [[nodiscard]] std::size_t size() const { return capacity - destination.free_in_buffer; }

    // No object with a destructor may live in this frame: longjmp would skip it. Returns false if libjpeg gave up.
    bool run(const Picture& picture, const JpegQuality& quality) noexcept;
    JSAMPROW next_row(const Picture& picture) const noexcept;
};

void on_destination(j_compress_ptr /*codec*/) {}

// libjpeg calls it when no byte is left, and does not keep free_in_buffer up to date then.
boolean on_full(j_compress_ptr codec) {
    constexpr std::size_t kFirst = std::size_t{1} << 16U;
    Encoder& encoder = Encoder::of(codec);
    const std::size_t used = encoder.capacity;
    const std::size_t capacity = std::max(2 * used, kFirst);
    void* const grown = std::realloc(encoder.file, capacity);
    if (grown == nullptr) {
        encoder.out_of_memory = true;
        longjmp(encoder.on_error, Encoder::kFailed);
    }
    encoder.file = static_cast<std::uint8_t*>(grown);
    encoder.capacity = capacity;
    encoder.destination.next_output_byte = encoder.file + used;
    encoder.destination.free_in_buffer = capacity - used;
    return TRUE;
}

void on_start(j_compress_ptr codec) {
    on_full(codec);
}

constexpr std::string_view kPlanar = "yuv444p";

J_COLOR_SPACE color_space(std::string_view pixel_format) {
    for (const auto& [name, space] : {std::pair{std::string_view("rgb24"), JCS_RGB},
                                      {"bgr24", JCS_EXT_BGR},
                                      {"gray", JCS_GRAYSCALE},
                                      {kPlanar, JCS_YCbCr}}) {
        if (name == pixel_format) {
            return space;
        }
    }
    return JCS_UNKNOWN;
}

JSAMPROW Encoder::next_row(const Picture& picture) const noexcept {
    const auto y = static_cast<std::ptrdiff_t>(codec.next_scanline);
    if (picture.pixel_format != kPlanar) {
        return const_cast<JSAMPROW>(picture.planes[0] + y * picture.row_distances[0]);  // libjpeg only reads it.
    }
    for (std::size_t plane = 0; plane < 3; ++plane) {
        const std::uint8_t* const from = picture.planes[plane] + y * picture.row_distances[plane];
        for (std::size_t x = 0; x < static_cast<std::size_t>(picture.size.width); ++x) {
            row.data()[3 * x + plane] = from[x];
        }
    }
    return row.data();
}

bool Encoder::run(const Picture& picture, const JpegQuality& quality) noexcept {
    handle_errors_of(reinterpret_cast<j_common_ptr>(&codec));
    destination.init_destination = on_start;
    destination.empty_output_buffer = on_full;
    destination.term_destination = on_destination;
    if (setjmp(on_error) != 0) {
        return false;
    }
    jpeg_create_compress(&codec);
    codec.dest = &destination;
    codec.image_width = static_cast<JDIMENSION>(picture.size.width);
    codec.image_height = static_cast<JDIMENSION>(picture.size.height);
    codec.in_color_space = color_space(picture.pixel_format);
    codec.input_components = codec.in_color_space == JCS_GRAYSCALE ? 1 : 3;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, quality.quality, TRUE);
    if (codec.num_components == 3) {
        codec.comp_info[0].h_samp_factor = quality.chroma_grid.width;
        codec.comp_info[0].v_samp_factor = quality.chroma_grid.height;
    }
    jpeg_start_compress(&codec, TRUE);
    while (codec.next_scanline < codec.image_height) {
        JSAMPROW next = next_row(picture);
        jpeg_write_scanlines(&codec, &next, 1);
    }
    jpeg_finish_compress(&codec);
    return true;
}

}  // namespace

bool jpeg_takes(std::string_view pixel_format) {
    return color_space(pixel_format) != JCS_UNKNOWN;
}

AlignedBuffer encode_jpeg(const Picture& picture, const JpegQuality& quality) {
    Encoder encoder;
    if (picture.pixel_format == kPlanar) {
        encoder.row.reserve(3 * static_cast<std::size_t>(picture.size.width));
    }
    if (!encoder.run(picture, quality)) {
        encoder.raise("cannot encode the JPEG: ");
    }
    AlignedBuffer bytes(encoder.size());
    std::memcpy(bytes.data(), encoder.file, bytes.size());
    return bytes;
}

}  // namespace spdl
