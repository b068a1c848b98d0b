#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "media/crop_and_flip.h"
#include "media/decode_options.h"
#include "media/demux_options.h"
#include "media/encoded_image.h"
#include "media/frame.h"
#include "media/image_shape.h"
#include "media/load_options.h"
#include "media/packet.h"
#include "media/place.h"

namespace spdl {

// The interface that every backend implements. A decoder belongs to one thread and keeps its memory from image to
// image. All errors are MediaErrors.
class Decoder {
  public:
    virtual ~Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    // Returns whether it decodes this image with these options. Called for every image, so it looks at the first bytes
    // only.
    [[nodiscard]] virtual bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                                       const DecodeOptions& decode) const noexcept = 0;

    // Returns the kind of memory that it decodes into.
    [[nodiscard]] virtual MemoryKind output() const noexcept = 0;

    // Begins an image that it accepts. Reads as much of it as needed for the shape, and checks its size. The bytes must
    // stay in place until close().
    virtual ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) = 0;

    // Crops, flips and resizes the open image, if the decoder does so by itself with the options of open(). Returns the
    // new shape then. Returns nothing if others have to do it, which is the usual case.
    virtual std::optional<ImageShape> transform(const ImageShape& shape, const LoadOptions& options,
                                                const CropAndFlip& crop);

    // Decodes a part of the open image into its place, once.
    virtual void decode(const Region& region, Place& place) = 0;

    // Does the same with the planes of an image whose shape has `planes`.
    virtual void decode_planes(const PlaneRegion& region, PlanePlace& place);

    // Returns whether it decodes an image that it accepts whole to the pixel format of its shape, which is packed.
    [[nodiscard]] virtual bool packs(const EncodedImage& /*image*/) const noexcept { return false; }

    // Does so with the open image, once. Rows begin `row_bytes` apart.
    virtual void decode_whole(std::uint8_t* to, std::size_t row_bytes);

    // Returns what is wrong with the image that was decoded last and kept in spite of it; nothing if all is well.
    [[nodiscard]] virtual std::string damage() const { return {}; }

    // Returns the properties of the open image.
    [[nodiscard]] virtual FrameProperties properties() const;

    // Lets go of the image.
    virtual void close() noexcept {}

    // Finds the image in its bytes, which `owner` keeps in place. Unless a backend has a demuxer, the packet holds the
    // bytes as they are.
    virtual std::shared_ptr<const Packet> demux(std::shared_ptr<const void> owner, const EncodedImage& image,
                                                const DemuxOptions& options);

  protected:
    Decoder() = default;
};

}  // namespace spdl
