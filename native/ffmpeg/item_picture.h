#pragma once

#include <optional>

#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"

namespace spdl {

// How the samples of a picture stand for colours.
struct SampleColors {
    AVColorSpace matrix;
    AVColorRange range;
};

// What the file of an AVIF or HEIF says about its picture.
struct ItemPicture {
    std::optional<SampleColors> colors;  // FFmpeg knows only those of the encoded picture, which come second.
    Size size{};                         // 0 if it is not said.
};

// Reads the description of the picture. Throws MediaError if it is made of several, of which FFmpeg's demuxer gives
// one.
ItemPicture describe_item_picture(Bytes file);

// Has the decoded samples stand for the colours that the file says, if they are not red, green and blue by themselves.
// Throws MediaError if the frame is of another size than the file says: it is another picture of it.
void apply_description(const ItemPicture& said, AVFrame& frame);

}  // namespace spdl
