#pragma once

#include <memory>
#include <string>

#include "media/decode_options.h"
#include "media/frame.h"
#include "media/packet.h"

namespace spdl {

// The image in the stored pixel format, after `filters` unless those are empty. Throws MediaError.
std::unique_ptr<Frame> decode_filtered(const Packet& packet, const std::string& filters, const DecodeOptions& options);

}  // namespace spdl
