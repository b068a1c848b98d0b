#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "av/bit_stream_filter.h"
#include "av/packet_list.h"
#include "av/stream.h"
#include "cuda/device.h"
#include "cuda/nvcuvid.h"
#include "gpu/nv12.h"
#include "gpu/nvdec_decoder.h"

namespace spdl {

// Frames in NV12, one behind the other.
struct FrameChunk {
    cuda::DeviceMemory memory;
    std::size_t frames = 0;
    Size size;
};

// Decodes the packets of one video on a GPU, to NV12 in the order in which frames are shown. One thread at a time.
class GpuVideoReader {
  public:
    struct Target {
        cuda::Device device = 0;
        cuda::Stream stream = nullptr;
        bool reuse = true;  // Whether decoders are kept for the next video, and taken from there.
        std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;
    };

    // Throws MediaError if NVDEC has no decoder for the codec.
    GpuVideoReader(std::shared_ptr<const Stream> stream, const VideoGeometry& geometry, Target target);
    GpuVideoReader(const GpuVideoReader&) = delete;
    GpuVideoReader& operator=(const GpuVideoReader&) = delete;
    ~GpuVideoReader();

    // Sets how many frames a chunk has room for, before the next frame is decoded.
    void set_chunk(std::size_t frames) { chunk_frames_ = frames; }

    // Decodes packets. Frames outside of the window are left out. If it throws, the frames before are lost too.
    void decode(const PacketList& packets);

    // Says that no more packets come, and finishes the frames that the decoder holds back. Another video may follow.
    void end();

    // Returns the chunks that are full, or all that have frames if `all`. Their frames are there.
    std::vector<FrameChunk> take(bool all);

    // Says how the colours are coded, once a frame was decoded.
    [[nodiscard]] const VideoColors& colors() const { return colors_; }

  private:
    static int on_sequence(void* self, cuda::VideoFormat* format) noexcept;
    static int on_decode(void* self, cuda::VideoPicture* picture) noexcept;
    static int on_show(void* self, cuda::ShownPicture* picture) noexcept;

    // Calls `work` and returns its result; 0, which fails the parser, after an exception, which is kept.
    template <typename Work>
    int guarded(const Work& work) noexcept;

    void begin();
    void parse(cuda::VideoPacket packet);
    void send(const AVPacket& packet);
    int take_format(const cuda::VideoFormat& format);
    void show(const cuda::ShownPicture& picture);
    cuda::DevicePointer next_place(Size size);
    void return_frame();
    void drop_parser() noexcept;

    std::shared_ptr<const Stream> stream_;
    VideoGeometry geometry_;
    Target target_;
    cuda::VideoCodec codec_;
    std::unique_ptr<BitStreamFilter> filter_;
    std::vector<std::uint8_t> header_;  // Goes in front of the first packet.
    bool first_ = true;
    TimeWindow window_;
    cuda::VideoParser parser_ = nullptr;
    std::unique_ptr<NvdecDecoder> decoder_;
    cuda::Event copied_ = nullptr;
    std::optional<MappedFrame> mapped_;  // The frame that is being copied.
    std::size_t chunk_frames_ = 32;
    std::vector<FrameChunk> chunks_;
    VideoColors colors_;
    std::exception_ptr error_;
};

// Makes one chunk of several, of which there is at least one.
FrameChunk join(std::vector<FrameChunk> chunks, const GpuVideoReader::Target& target);

}  // namespace spdl
