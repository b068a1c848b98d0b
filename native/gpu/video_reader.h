#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "av/packet_list.h"
#include "av/stream.h"
#include "cuda/device.h"
#include "cuda/nvcuvid.h"
#include "gpu/nvdec_decoder.h"
#include "gpu/nvdec_packets.h"
#include "gpu/yuv_frames.h"

namespace spdl {

// Frames, one behind the other, and when each is shown, in units of the stream's time base.
struct FrameChunk {
    cuda::DeviceMemory memory;
    FrameForm form;
    std::vector<std::int64_t> times;

    // Returns where a frame is.
    [[nodiscard]] cuda::DevicePointer place(std::size_t frame) const { return memory.pointer + frame * form.bytes(); }
};

// Decodes the packets of one video on a GPU, to frames in the order in which they are shown. One thread at a time.
class GpuVideoReader {
  public:
    struct Target {
        cuda::Device device = 0;
        cuda::Stream stream = nullptr;
        bool reuse = true;  // Whether decoders are kept for the next video, and taken from there.
        std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;
        // What else users can do if NVDEC does not decode the video.
        const char* remedy = "decode it on the CPU, with decode_packets or load_video";
    };

    // Returns whether a frame that is shown at this time is wanted.
    using Choice = std::function<bool(std::int64_t time)>;

    // Throws MediaError if NVDEC has no decoder for the codec.
    GpuVideoReader(std::shared_ptr<const Stream> stream, const VideoGeometry& geometry, Target target);
    GpuVideoReader(const GpuVideoReader&) = delete;
    GpuVideoReader& operator=(const GpuVideoReader&) = delete;
    ~GpuVideoReader();

    // Sets how many frames a chunk has room for, before the next frame is decoded.
    void set_chunk(std::size_t frames) { chunk_frames_ = frames; }

    // Has the choice tell which frames are kept, in place of the packets' window. They may then change their size.
    void set_choice(Choice choice) { choice_ = std::move(choice); }

    // Decodes packets. Frames outside of the window are left out. If it throws, the frames before are lost too.
    void decode(const PacketList& packets);

    // Decodes one packet.
    void decode(const AVPacket& packet);

    // Says that no more packets come, and finishes the frames that the decoder holds back. Another video may follow.
    void end();

    // Forgets all packets, for those of another place, also after an exception.
    void restart();

    // Returns the chunks that are full, or all that have frames if `all`. Their frames are there.
    std::vector<FrameChunk> take(bool all);

    // Returns whether the header of the video was read, so that the GPU is known to decode it.
    [[nodiscard]] bool has_format() const { return form_.surface != Size{}; }

    // Returns how the frames lie in memory, once the header was read.
    [[nodiscard]] const FrameForm& form() const { return form_; }

  private:
    static int on_sequence(void* self, cuda::VideoFormat* format) noexcept;
    static int on_decode(void* self, cuda::VideoPicture* picture) noexcept;
    static int on_show(void* self, cuda::ShownPicture* picture) noexcept;

    // Calls `work` and returns its result; 0, which fails the parser, after an exception, which is kept.
    template <typename Work>
    int guarded(const Work& work) noexcept;

    void begin();
    void parse(cuda::VideoPacket packet);
    int take_format(const cuda::VideoFormat& format);
    void show(const cuda::ShownPicture& picture);
    void check_whole(const cuda::ShownPicture& picture) const;
    [[nodiscard]] bool is_wanted(std::int64_t time) const;
    cuda::DevicePointer next_place();
    void return_frame();
    void drop_parser() noexcept;
    void abandon();

    std::shared_ptr<const Stream> stream_;
    VideoGeometry geometry_;
    Target target_;
    cuda::VideoCodec codec_;
    NvdecPackets packets_;
    TimeWindow window_;
    Choice choice_;
    cuda::VideoParser parser_ = nullptr;
    std::unique_ptr<NvdecDecoder> decoder_;
    cuda::Event copied_ = nullptr;
    std::optional<MappedFrame> mapped_;  // The frame that is being copied.
    std::size_t chunk_frames_ = 32;
    std::vector<FrameChunk> chunks_;
    FrameForm form_;  // Of the frames of the present sequence.
    std::exception_ptr error_;
};

// Makes one chunk of several, of which there is at least one.
FrameChunk join(std::vector<FrameChunk> chunks, const GpuVideoReader::Target& target);

}  // namespace spdl
