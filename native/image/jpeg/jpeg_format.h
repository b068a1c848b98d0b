#pragma once

#include <cstdio>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

#include "core/geometry.h"

namespace spdl {

// What the header of a JPEG says of its samples.

// Returns how many pixels share a chroma sample.
Size chroma_grid(const jpeg_decompress_struct& codec);

// Returns FFmpeg's name of what is stored.
const char* pixel_format(const jpeg_decompress_struct& codec);

// Returns whether the planes are luma and two alike of chroma, whose sides are as long or half as long. Lossless images
// have none of the blocks that planes are made of: their scans, other than those of blocks, name no last coefficient.
bool has_planes(const jpeg_decompress_struct& codec);

}  // namespace spdl
