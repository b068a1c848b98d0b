#pragma once

#include <memory>

#include "media/decoded_image.h"
#include "media/encoded_image.h"
#include "media/load_options.h"
#include "media/packet.h"

namespace spdl {

// One image is demuxed and decoded step by step.

// Finds the image in its bytes, which `owner` keeps in place. Throws MediaError.
std::shared_ptr<const Packet> demux_image(std::shared_ptr<const void> owner, const EncodedImage& image,
                                          const DemuxOptions& options);

// Decodes the image to a frame in one of our own pixel formats, as bytes. Throws MediaError.
DecodedImage decode_resized(const Packet& packet, const LoadOptions& options, const DecodeOptions& decode,
                            FrameMaker make_frame);

// Decodes the image to a frame in the pixel format that it is stored in, if a backend that the options allow does so by
// itself; the frame is null otherwise. With `make_rgb`, JPEGs whose planes FFmpeg would decode become RGB. Throws
// MediaError.
DecodedImage decode_whole(const Packet& packet, const DecodeOptions& decode, StoredFrameMaker make_frame,
                          FrameMaker make_rgb = nullptr);

}  // namespace spdl
