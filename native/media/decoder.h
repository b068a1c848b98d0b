#pragma once

#include <memory>
#include <optional>

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

// What every backend implements. A decoder belongs to one thread and keeps its memory from image to image. All errors
// are MediaErrors.
class Decoder {
  public:
    virtual ~Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    // Whether it decodes this image with these options. Called for every image, so it looks at the first bytes only.
    [[nodiscard]] virtual bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                                       const DecodeOptions& decode) const noexcept = 0;

    // The memory that it decodes into.
    [[nodiscard]] virtual MemoryKind output() const noexcept = 0;

    // Begins an image that it accepts: reads as much of it as the shape takes, and checks its size. The bytes must stay
    // in place until close().
    virtual ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) = 0;

    // For a decoder that crops, flips and resizes by itself when it is asked to: does so with the open image, and
    // returns the new shape. Returns nothing if that is left to others, as it usually is.
    virtual std::optional<ImageShape> transform(const ImageShape& shape, const LoadOptions& options,
                                                const CropAndFlip& crop);

    // Decodes a part of the open image into its place, once.
    virtual void decode(const Region& region, Place& place) = 0;

    // Whether the data ended before the image did, and the rest was kept.
    [[nodiscard]] virtual bool truncated() const noexcept { return false; }

    // What the open image has besides its pixels.
    [[nodiscard]] virtual FrameProperties properties() const;

    // Lets go of the image.
    virtual void close() noexcept {}

    // Finds the image in `bytes`, which `owner` keeps in place. Unless a backend has a demuxer, the packet holds the
    // bytes as they are.
    virtual std::shared_ptr<const Packet> demux(std::shared_ptr<const void> owner, Bytes bytes,
                                                const DemuxOptions& options);

  protected:
    Decoder() = default;
};

}  // namespace spdl
