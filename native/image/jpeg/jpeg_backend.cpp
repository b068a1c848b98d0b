#include "image/jpeg/jpeg_backend.h"

#include <cstdio>
#include <memory>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include <string>

#include "image/jpeg/jpeg_decoder.h"
#include "image/jpeg/jpeg_frame.h"

namespace spdl {
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
                                    []() -> std::unique_ptr<Decoder> { return std::make_unique<TurboDecoder>(); }};

std::tuple<int, int, int> libjpeg_turbo_version() noexcept {
    constexpr int kNumber = LIBJPEG_TURBO_VERSION_NUMBER;
    return {kNumber / 1'000'000, kNumber / 1000 % 1000, kNumber % 1000};
}

std::string_view last_entropy_decoder() noexcept {
    return last_entropy;
}

}  // namespace spdl
