#pragma once

#include "core/aligned_buffer.h"
#include "core/file_reader.h"
#include "image/planes/yuv_resizer.h"
#include "image/resize/plane_resizer.h"
#include "image/resize/resizer.h"
#include "media/decoder_set.h"

namespace spdl {

// Everything that one thread needs to read, decode and resize images. It is kept, so the next image allocates nothing.
struct ThreadScratch {
    FileReader file;
    DecoderSet decoders;
    Resizer resizer;
    PlaneResizer plane_resizer;
    AlignedBuffer pixels;  // Of an image whose colours change on the way to its place.
    YuvResizer yuv_resizer;
};

ThreadScratch& thread_scratch();

}  // namespace spdl
