#include "image/avif/avif_decoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "media/decoder.h"

namespace spdl {
namespace {

const char* reason(avifResult result) {
    switch (result) {
        case AVIF_RESULT_TRUNCATED_DATA:
            return "the data is truncated";
        case AVIF_RESULT_OUT_OF_MEMORY:
            return "there is no memory for it";
        case AVIF_RESULT_NO_CODEC_AVAILABLE:
            return "libavif has been built without a decoder of AV1";
        case AVIF_RESULT_REFORMAT_FAILED:
            return "its samples stand for colours in a way that libavif does not know";
        default:
            return "the data is damaged, or of a kind that libavif does not know";
    }
}

// The formats of libavif, by the number of channels.
#if AVIF_VERSION >= 1030000
constexpr bool kHasGray = true;
constexpr avifRGBFormat kGray = AVIF_RGB_FORMAT_GRAY;
#else
constexpr bool kHasGray = false;
constexpr avifRGBFormat kGray = AVIF_RGB_FORMAT_RGB;
#endif

avifRGBFormat libavifs(const PackedFormat& format) {
    return format.channels == 1 ? kGray : format.has_alpha() ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
}

Size size_of(const avifImage& image) {
    return {static_cast<int>(image.width), static_cast<int>(image.height)};
}

bool is_gray(const avifImage& image) {
    return image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400;
}

// Returns the clean aperture: all of the picture if none exists or its numbers make no sense, in which case Pillow and
// browsers show all, too.
Box aperture_of(const avifImage& image) {
    avifCropRect box;
    avifDiagnostics words;
#if AVIF_VERSION >= 1020000
    const auto convert = [&] {
        return avifCropRectFromCleanApertureBox(&box, &image.clap, image.width, image.height, &words);
    };
#else
    const auto convert = [&] {
        return avifCropRectConvertCleanApertureBox(&box, &image.clap, image.width, image.height, image.yuvFormat,
                                                   &words);
    };
#endif
    if ((image.transformFlags & AVIF_TRANSFORM_CLAP) == 0 || convert() == AVIF_FALSE) {
        return whole(size_of(image));
    }
    return {static_cast<int>(box.x), static_cast<int>(box.y), static_cast<int>(box.x + box.width),
            static_cast<int>(box.y + box.height)};
}

}  // namespace

void AvifDecoder::check(avifResult result) const {
    if (result == AVIF_RESULT_OK) {
        return;
    }
    if (were_frames_refused()) {
        throw MediaError("cannot decode the AVIF: its data has more than " + std::to_string(kMostFrames) +
                         " frames for one picture, each of which would be decoded");
    }
    std::string text =
        std::string("cannot decode the AVIF: ") + reason(result) + " (libavif: " + avifResultToString(result);
    if (const char* const more = decoder_->diag.error; *more != '\0') {
        text += ", " + quoted(more, true);
    }
    throw MediaError(text + ")");
}

PackedShape AvifDecoder::describe(Bytes bytes, std::int64_t max_pixels) {
    decoder_.reset(avifDecoderCreate());
    if (!decoder_) {
        throw std::bad_alloc();
    }
    decoder_->maxThreads = 1;
    // We find them ourselves.
    decoder_->ignoreExif = AVIF_TRUE;
    decoder_->ignoreXMP = AVIF_TRUE;
    // As lenient as Pillow.
    decoder_->strictFlags &= ~static_cast<avifStrictFlags>(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED);
    // Each picture of a sequence takes some bytes, and libavif some memory for it.
    constexpr std::size_t kFewestBytes = 4;
    decoder_->imageCountLimit =
        static_cast<std::uint32_t>(std::min<std::size_t>(AVIF_DEFAULT_IMAGE_COUNT_LIMIT, bytes.size() / kFewestBytes));
    check(avifDecoderSetIOMemory(decoder_.get(), bytes.data(), bytes.size()));
    check(avifDecoderParse(decoder_.get()));

    const avifImage& image = *decoder_->image;
    coded_ = size_of(image);
    check_source_size(coded_, "cannot decode the image: its size", max_pixels);
    // From here on it is for what is decoded, whose size may be another than the file says.
    decoder_->imageSizeLimit =
        static_cast<std::uint32_t>(std::min<std::int64_t>(AVIF_DEFAULT_IMAGE_SIZE_LIMIT, max_pixels));
    aperture_ = aperture_of(image);
    // Without its alpha, libavif would blend the picture with black.
    const int channels = decoder_->alphaPresent != AVIF_FALSE ? 4 : kHasGray && is_gray(image) ? 1 : 3;
    return {aperture_.size(), {channels, image.depth > 8 ? 2 : 1}, "av1"};
}

void AvifDecoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
    check(avifDecoderNextImage(decoder_.get()));
    const avifImage& image = *decoder_->image;
    if (size_of(image) != coded_ || (region.format.channels == 1 && !is_gray(image))) {
        throw MediaError("cannot decode the AVIF: its picture has another size or more channels than the file says");
    }
    avifRGBImage pixels;
    avifRGBImageSetDefaults(&pixels, &image);
    pixels.format = libavifs(region.format);
    pixels.depth = region.format.sample_bytes == 1 ? 8 : 16;
    pixels.pixels = to;
    pixels.rowBytes = static_cast<std::uint32_t>(row_bytes);
    if (aperture_ == whole(coded_)) {
        return check(avifImageYUVToRGB(&image, &pixels));
    }
    const std::size_t pixel_bytes = region.format.pixel_bytes();
    const std::size_t whole_row = pixel_bytes * image.width;
    pixels_.reserve(whole_row * image.height);
    pixels.pixels = pixels_.data();
    pixels.rowBytes = static_cast<std::uint32_t>(whole_row);
    check(avifImageYUVToRGB(&image, &pixels));
    const std::size_t shown_row = pixel_bytes * static_cast<std::size_t>(aperture_.size().width);
    const std::uint8_t* from = pixels_.data() + whole_row * static_cast<std::size_t>(aperture_.top) +
                               pixel_bytes * static_cast<std::size_t>(aperture_.left);
    for (int y = aperture_.top; y < aperture_.bottom; ++y, from += whole_row, to += row_bytes) {
        std::memcpy(to, from, shown_row);
    }
}

void AvifDecoder::forget() noexcept {
    decoder_.reset();
    if (pixels_.size() > kKeptBytes) {
        pixels_ = AlignedBuffer();
    }
}

extern const Backend libavif_backend;
const Backend libavif_backend{"libavif", "decodes AVIF only, without FFmpeg's options",
                              []() -> std::unique_ptr<Decoder> { return std::make_unique<AvifDecoder>(); }};

}  // namespace spdl
