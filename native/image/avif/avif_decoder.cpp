#include <avif/avif.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "media/decoder.h"

#ifdef SPDL_PINNED_LIBRARIES
#include <dav1d/dav1d.h>
#endif

namespace spdl {
namespace {

// Each frame of the data that a file calls one picture would be decoded, although a few bytes are a frame, and only one
// is shown. A picture has a frame for each of its layers (AV1 allows four), and an encoder may put hidden frames before
// them.
constexpr int kMostFrames = 8;

// Whether data of more frames were kept from the decoder of AV1 in this thread. The system's libavif, which calls dav1d
// without us, decodes them all.
thread_local bool refused = false;

#ifdef SPDL_PINNED_LIBRARIES

// Returns what the units of an AV1 stream ("OBUs") hold, as far as they can be told apart, which is as far as dav1d
// reads.
int count_frames(Bytes units) {
    constexpr unsigned kFrameHeader = 3;
    constexpr unsigned kFrame = 6;
    constexpr unsigned kRepeatedHeader = 7;  // Of no frame, unless one begins here.
    constexpr unsigned kHasExtension = 4;
    constexpr unsigned kHasSize = 2;
    int frames = 0;
    while (!units.empty()) {
        const unsigned header = units[0];
        const unsigned type = header >> 3U & 15U;
        frames += type == kFrameHeader || type == kFrame || type == kRepeatedHeader ? 1 : 0;
        if ((header & kHasSize) == 0) {
            break;
        }
        std::size_t at = (header & kHasExtension) == 0 ? 1 : 2;
        std::uint64_t size = 0;
        constexpr unsigned kBits = 7;
        for (unsigned shift = 0; at < units.size(); shift += kBits) {
            const std::uint64_t byte = units[at++];
            size |= (byte & 0x7fU) << shift;
            if (byte < 0x80U || shift == 7 * kBits) {
                break;
            }
        }
        if (at >= units.size() || size > units.size() - at) {
            break;
        }
        units = units.subspan(at + size);
    }
    return frames;
}
#endif

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

// Decodes AVIF by libavif: of a sequence the first picture, of a progressive one the best. Pixels outside the clean
// aperture are cut off; the picture is not turned.
class AvifDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kAvif; }

    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override {
        decoder_.reset(avifDecoderCreate());
        require_memory(decoder_ != nullptr);
        decoder_->maxThreads = 1;
        // We find them ourselves.
        decoder_->ignoreExif = AVIF_TRUE;
        decoder_->ignoreXMP = AVIF_TRUE;
        // As lenient as Pillow.
        decoder_->strictFlags &= ~static_cast<avifStrictFlags>(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED);
        // Each picture of a sequence takes some bytes, and libavif some memory for it.
        constexpr std::size_t kFewestBytes = 4;
        decoder_->imageCountLimit = static_cast<std::uint32_t>(
            std::min<std::size_t>(AVIF_DEFAULT_IMAGE_COUNT_LIMIT, bytes.size() / kFewestBytes));
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

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        check(avifDecoderNextImage(decoder_.get()));
        const avifImage& image = *decoder_->image;
        if (size_of(image) != coded_ || (region.format.channels == 1 && !is_gray(image))) {
            throw MediaError(
                "cannot decode the AVIF: its picture has another size or more channels than the file says");
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

    void forget() noexcept override {
        decoder_.reset();
        pixels_.shrink();
    }

  private:
    void check(avifResult result) const {
        if (result == AVIF_RESULT_OK) {
            return;
        }
        if (std::exchange(refused, false)) {
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

    struct Destroy {
        void operator()(avifDecoder* decoder) const noexcept { avifDecoderDestroy(decoder); }
    };
    std::unique_ptr<avifDecoder, Destroy> decoder_;
    Size coded_;
    Box aperture_;          // The part that is shown.
    AlignedBuffer pixels_;  // If that is not all.
};

}  // namespace

extern const Backend libavif_backend;
const Backend libavif_backend{"libavif", "decodes AVIF only, without FFmpeg's options", make_decoder<AvifDecoder>};

}  // namespace spdl

#ifdef SPDL_PINNED_LIBRARIES
extern "C" {

// The pinned libavif calls it in the place of dav1d_send_data (scripts/bundle/library.sh).
int spdl_dav1d_send_data(Dav1dContext* context, Dav1dData* data);

int spdl_dav1d_send_data(Dav1dContext* context, Dav1dData* data) {
    if (spdl::count_frames({data->data, data->sz}) > spdl::kMostFrames) {
        spdl::refused = true;
        return DAV1D_ERR(EINVAL);
    }
    return dav1d_send_data(context, data);
}
}
#endif
