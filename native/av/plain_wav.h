#pragma once

#include "core/byte_source.h"

namespace spdl {

// Returns whether a file is WAV and holds the samples that its header promises, and not coded sound, as discs of DTS do
// and recordings of a digital output (S/PDIF). FFmpeg finds out by trying all its formats on more and more of the
// samples, which takes longer than reading a short file. Here only the code words are looked for that such sound
// begins its blocks with. If the source can be read once only, returns false; otherwise it is then at its beginning.
bool is_plain_wav(ByteSource& source);

}  // namespace spdl
