#include "media/decoder.h"

#include <limits>
#include <stdexcept>
#include <utility>

namespace spdl {
namespace {

constexpr Rational kImageTimeBase{1, 25};  // The unit of FFmpeg's image demuxers.

}  // namespace

std::optional<ImageShape> Decoder::transform(const ImageShape& /*shape*/, const LoadOptions& /*options*/,
                                             const CropAndFlip& /*crop*/) {
    return std::nullopt;
}

void Decoder::decode_planes(const PlaneRegion& /*region*/, PlanePlace& /*place*/) {
    throw std::logic_error("this decoder has no planes");
}

void Decoder::decode_whole(std::uint8_t* /*to*/, std::size_t /*row_bytes*/) {
    throw std::logic_error("this decoder has no packed pixels");
}

FrameProperties Decoder::properties() const {
    return {0, kImageTimeBase, {}};
}

std::shared_ptr<const Packet> Decoder::demux(std::shared_ptr<const void> owner, const EncodedImage& image,
                                             const DemuxOptions& options) {
    // Nothing is allocated for the size that the image claims; one that is too large is refused when it is decoded.
    DecodeOptions any_size;
    any_size.max_pixels = std::numeric_limits<std::int64_t>::max();
    const ImageShape shape = open(image, options, any_size);
    close();
    return std::make_shared<const KeptPacket>(
        std::move(owner), image, CodecInfo{shape.codec, shape.stored, shape.pixel_format, kImageTimeBase, {0, 1}});
}

}  // namespace spdl
