#pragma once

#include "core/file_reader.h"
#include "image/resize/resizer.h"
#include "media/decoder_set.h"

namespace spdl {

// What one thread needs to read, decode and resize images, kept so that the next image allocates nothing.
struct ThreadScratch {
    FileReader file;
    DecoderSet decoders;
    Resizer resizer;
};

ThreadScratch& thread_scratch();

}  // namespace spdl
