#pragma once

#include <memory>

#include "core/byte_source.h"

namespace spdl {

// Returns a source that ends where the sound ends, if something else lies behind it that FFmpeg would take for sound,
// or for damaged sound: tags (ID3, APE, Lyrics3, also several) behind the frames of an MP3 or another file without a
// size of its own, what follows the sound of an AU file that says its size, and the chunks of a WAV file
// without sound. It leaves out tags and headers between the frames of joined files. Of RF64 and BW64 it says the size
// that a program could not know which wrote to a pipe. Other sources are returned as they are. The source is then at
// its beginning.
std::unique_ptr<ByteSource> front_with_sound(std::unique_ptr<ByteSource> source);

}  // namespace spdl
