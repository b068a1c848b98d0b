#include "image/load/image_reader.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/media_error.h"
#include "image/orientation/exif_orientation.h"

namespace spdl {
namespace {

ImageShape frame_shape(const AVFrame& frame, const Orientation& orientation) {
    ImageShape shape{{frame.width, frame.height}, orientation, {1, 1}, false};
    if (const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format))) {
        shape.chroma_grid = {1 << format->log2_chroma_w, 1 << format->log2_chroma_h};
    }
    return shape;
}

// What threads that ended have left to those that begin: some of them live for one batch only.
class ScratchPool {
  public:
    std::unique_ptr<ThreadScratch> take() {
        // Not waited for: in a forked child nobody might ever unlock it.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || left_.empty()) {
            return std::make_unique<ThreadScratch>();
        }
        std::unique_ptr<ThreadScratch> scratch = std::move(left_.back());
        left_.pop_back();
        return scratch;
    }

    void leave(std::unique_ptr<ThreadScratch> scratch) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock && left_.size() < left_.capacity()) {
            left_.push_back(std::move(scratch));
        }
    }

    ScratchPool() { left_.reserve(std::max(std::thread::hardware_concurrency(), 1U)); }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<ThreadScratch>> left_;
};

// Never destroyed: threads may outlive the process's static objects.
ScratchPool& scratch_pool() {
    static ScratchPool* const pool = new ScratchPool;
    return *pool;
}

class BorrowedScratch {
  public:
    BorrowedScratch() : scratch_(scratch_pool().take()) {}
    BorrowedScratch(const BorrowedScratch&) = delete;
    BorrowedScratch& operator=(const BorrowedScratch&) = delete;
    ~BorrowedScratch() { scratch_pool().leave(std::move(scratch_)); }

    [[nodiscard]] ThreadScratch& get() const { return *scratch_; }

  private:
    std::unique_ptr<ThreadScratch> scratch_;
};

}  // namespace

ThreadScratch& thread_scratch() {
    thread_local const BorrowedScratch scratch;
    return scratch.get();
}

ImageReader::ImageReader(FramePtr frame, const Orientation& orientation, ThreadScratch& scratch)
    : scratch_(scratch), shape_(frame_shape(*frame, orientation)), frame_(std::move(frame)) {}

ImageReader::ImageReader(Bytes bytes, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
                         ThreadScratch& scratch)
    : scratch_(scratch) {
    const Orientation orientation = upright ? exif_orientation(bytes) : Orientation();
    if (is_jpeg(bytes) && !demux.need_ffmpeg() && !decode.need_ffmpeg()) {
        const JpegHeader header = scratch.jpeg.read_header(bytes, {decode.max_pixels, decode.keep_truncated});
        shape_ = {header.size, orientation, header.chroma_grid, true};
        return;
    }
    if (decode.backend == Backend::kTurbo) {
        throw MediaError("libjpeg-turbo decodes JPEG only, without FFmpeg's options and filters, but was asked for");
    }
    frame_ = decode_picture(demux_picture(bytes, demux), decode);
    shape_ = frame_shape(*frame_, orientation);
}

DecodedRows ImageReader::begin(int eighths, const Box& wanted, Channels channels) {
    wanted_ = wanted;
    channels_ = channels;
    if (frame_) {
        return {wanted.size().width, 0};
    }
    const Box decoded = scratch_.jpeg.begin(eighths, wanted, channels);
    return {decoded.size().width, wanted.left - decoded.left};
}

void ImageReader::read(RowSink& sink) {
    if (frame_) {
        scratch_.converter.convert(*frame_, wanted_, channels_, sink);
    } else {
        scratch_.jpeg.decode(sink);
    }
}

}  // namespace spdl
