#pragma once

#include <memory>
#include <string>

#include "media/decode_options.h"
#include "media/frame.h"
#include "media/packet.h"

namespace spdl {

// Decodes the image to its stored pixel format, and applies `filters` unless they are empty. Throws MediaError.
std::unique_ptr<Frame> decode_filtered(const Packet& packet, const std::string& filters, const DecodeOptions& options);

// Applies filters to a frame of FFmpeg's. Throws MediaError.
std::unique_ptr<Frame> filtered(std::unique_ptr<Frame> frame, const std::string& filters);

}  // namespace spdl
