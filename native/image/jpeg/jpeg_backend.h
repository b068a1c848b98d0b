#pragma once

#include <string_view>

#include "media/backend.h"

namespace spdl {

// Decodes JPEG by libjpeg-turbo.
extern const Backend libjpeg_turbo_backend;

// What decoded the Huffman codes of the last JPEG on this thread, as entropy_decoder_names calls it.
std::string_view last_entropy_decoder() noexcept;

}  // namespace spdl
