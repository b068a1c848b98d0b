#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "core/bytes.h"
#include "core/errors.h"
#include "media/decoder.h"

namespace spdl {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the WebP: " + what);
}

void check(VP8StatusCode status) {
    switch (status) {
        case VP8_STATUS_OK:
            return;
        case VP8_STATUS_NOT_ENOUGH_DATA:
            fail("the data is truncated");
        case VP8_STATUS_OUT_OF_MEMORY:
            fail("there is no memory for it");
        case VP8_STATUS_UNSUPPORTED_FEATURE:
            fail("it uses a feature that libwebp does not know");
        default:
            fail("the data is damaged");
    }
}

std::uint8_t* pixel(std::uint8_t* pixels, std::size_t row_bytes, const PackedFormat& format, int x, int y) {
    return pixels + row_bytes * static_cast<std::size_t>(y) + format.pixel_bytes() * static_cast<std::size_t>(x);
}

// Decodes WebP by libwebp: the first picture of an animation, on its canvas. The rest is transparent black.
class WebpDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kWebp; }

    PackedShape describe(Bytes bytes, std::int64_t /*max_pixels*/) override {
        WebPBitstreamFeatures features;
        check(WebPGetFeatures(bytes.data(), bytes.size(), &features));
        find_picture(bytes);
        const Size canvas{static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH)),
                          static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT))};
        return {canvas, {features.has_alpha != 0 ? 4 : 3, 1}, "webp"};
    }

    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override {
        // At the edges of a part the colours of lossy pictures would be interpolated without their neighbours, which
        // come in pairs.
        constexpr int kNeighbours = 2;
        const Box more{std::max(wanted.left - kNeighbours, 0) & ~1, std::max(wanted.top - kNeighbours, 0) & ~1,
                       wanted.right + kNeighbours, wanted.bottom + kNeighbours};
        return common(more, PackedDecoder::decodable(eighths, wanted));
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        const PackedFormat& format = region.format;
        const Box part = common(region.box, place_);
        const bool visible = part.left < part.right && part.top < part.bottom;
        if (!visible || part != region.box) {
            const Size size = region.box.size();
            for (int y = 0; y < size.height; ++y) {
                std::memset(pixel(to, row_bytes, format, 0, y), 0,
                            format.pixel_bytes() * static_cast<std::size_t>(size.width));
            }
        }
        if (visible) {
            decode_part(moved(part, -place_.left, -place_.top), format,
                        pixel(to, row_bytes, format, part.left - region.box.left, part.top - region.box.top),
                        row_bytes);
        }
    }

    void forget() noexcept override { demuxer_.reset(); }

  private:
    // Finds the only picture, or the first of an animation.
    void find_picture(Bytes bytes) {
        const WebPData data{bytes.data(), bytes.size()};
        demuxer_.reset(WebPDemux(&data));
        if (!demuxer_) {
            const bool cut = bytes.size() < std::uint64_t{8} + read_integer(bytes, 4, 4, true);
            fail(cut ? "the data is truncated" : "one of its chunks is damaged or missing");
        }
        WebPIterator first;
        if (WebPDemuxGetFrame(demuxer_.get(), 1, &first) == 0) {
            fail("there is no picture in it");
        }
        picture_ = {first.fragment.bytes, first.fragment.size};
        place_ = {first.x_offset, first.y_offset, first.x_offset + first.width, first.y_offset + first.height};
        WebPDemuxReleaseIterator(&first);
    }

    // Decodes a part of the picture.
    // Its scaling is not used: it takes longer than a decode of all pixels and our own resize.
    void decode_part(const Box& part, const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes) const {
        WebPDecoderConfig config;
        WebPInitDecoderConfig(&config);
        const Size size = part.size();
        if (size != place_.size()) {
            config.options.use_cropping = 1;
            config.options.crop_left = part.left;
            config.options.crop_top = part.top;
            config.options.crop_width = size.width;
            config.options.crop_height = size.height;
        }
        config.output.colorspace = format.has_alpha() ? MODE_RGBA : MODE_RGB;
        config.output.is_external_memory = 1;
        config.output.u.RGBA.rgba = to;
        config.output.u.RGBA.stride = static_cast<int>(row_bytes);
        // The last row of a part need not end with the memory.
        config.output.u.RGBA.size = row_bytes * static_cast<std::size_t>(size.height - 1) +
                                    format.pixel_bytes() * static_cast<std::size_t>(size.width);
        check(WebPDecode(picture_.data(), picture_.size(), &config));
    }

    struct Delete {
        void operator()(WebPDemuxer* demuxer) const noexcept { WebPDemuxDelete(demuxer); }
    };
    std::unique_ptr<WebPDemuxer, Delete> demuxer_;
    Bytes picture_;
    Box place_;  // Of the picture on its canvas.
};

}  // namespace

extern const Backend libwebp_backend;
const Backend libwebp_backend{"libwebp", "decodes WebP only, without FFmpeg's options", make_decoder<WebpDecoder>};

}  // namespace spdl
