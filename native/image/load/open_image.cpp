#include "image/load/open_image.h"

#include "image/jpeg/jpeg_backend.h"
#include "image/jpeg/jpeg_check.h"
#include "image/orientation/exif_orientation.h"

namespace spdl {

OpenImage::OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                     ThreadScratch& scratch)
    : choice_(scratch.decoders.choose(image, demux, decode)) {
    if (&choice_.backend != &libjpeg_turbo_backend) {
        check_jpeg(image.bytes, decode.max_pixels);
    }
    shape_ = choice_.decoder.open(image, demux, decode);
}

// From here on, the image is closed even if its metadata are damaged.
OpenImage::OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
                     ThreadScratch& scratch)
    : OpenImage(image, demux, decode, scratch) {
    if (upright) {
        shape_.orientation = exif_orientation(image.bytes);
    }
}

}  // namespace spdl
