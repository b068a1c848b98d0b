#pragma once

#include <string_view>
#include <tuple>

#include "media/backend.h"

namespace spdl {

// Decodes JPEG by libjpeg-turbo.
extern const Backend libjpeg_turbo_backend;

// Returns the version of libjpeg-turbo that this was built with.
std::tuple<int, int, int> libjpeg_turbo_version() noexcept;

// Returns the name, one of entropy_decoder_names, of the decoder of the last JPEG's Huffman codes on this thread.
std::string_view last_entropy_decoder() noexcept;

}  // namespace spdl
