#include "image/image_reader.h"

#include <utility>

#include "ffmpeg/decode.h"
#include "ffmpeg/demux.h"

namespace spdl {

ThreadScratch& thread_scratch() {
    thread_local ThreadScratch scratch;
    return scratch;
}

ImageReader::ImageReader(FramePtr frame, ThreadScratch& scratch)
    : scratch_(scratch), size_{frame->width, frame->height}, frame_(std::move(frame)) {}

ImageReader::ImageReader(Bytes bytes, ThreadScratch& scratch) : scratch_(scratch) {
    if (is_jpeg(bytes)) {
        size_ = scratch.jpeg.read_header(bytes).size;
    } else {
        frame_ = decode_picture(demux_picture(bytes, {}), {});
        size_ = {frame_->width, frame_->height};
    }
}

void ImageReader::read(RowSink& sink) {
    if (frame_) {
        scratch_.converter.convert(*frame_, sink);
    } else {
        scratch_.jpeg.decode(sink);
    }
}

}  // namespace spdl
