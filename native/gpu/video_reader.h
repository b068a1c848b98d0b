#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/packets.h"
#include "av/stream_decoder.h"
#include "av/video_index.h"
#include "core/non_copyable.h"
#include "cuda/device.h"
#include "cuda/kernels.h"
#include "cuda/media_libraries.h"
#include "gpu/nvdec.h"
#include "gpu/resize_work.h"
#include "media/options.h"

namespace spdl {

// Frames, one after the other, and when each is shown, in units of the stream's time base.
struct FrameChunk {
    cuda::DeviceMemory memory;
    FrameForm form;
    std::vector<std::int64_t> times;

    // Returns the place of a frame.
    [[nodiscard]] cuda::DevicePointer place(std::size_t frame) const { return memory.pointer + frame * form.bytes(); }
};

// Decodes the packets of one video on a GPU, to frames in the order in which they are shown. One thread at a time.
class GpuVideoReader : NonCopyable {
  public:
    struct Target {
        cuda::Device device = 0;
        cuda::Stream stream = nullptr;
        bool reuse = true;  // Whether decoders are kept for the next video, and taken from there.
        std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;
        // The remedy if NVDEC does not decode the video.
        const char* remedy = "decode it on the CPU, with decode_packets or load_video";
    };

    // Returns whether a frame that is shown at this time is wanted.
    using Choice = std::function<bool(std::int64_t time)>;

    // Throws MediaError if NVDEC has no decoder for the codec.
    GpuVideoReader(std::shared_ptr<const Stream> stream, const VideoGeometry& geometry, Target target);
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

    // Forgets all packets, to continue at another place, also after an exception.
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

// Makes one chunk of several, at least one.
FrameChunk join(std::vector<FrameChunk> chunks, const GpuVideoReader::Target& target);

// A decoded frame, in memory that it shares with a few others.
struct GpuFrame {
    cuda::DeviceMemory memory;
    FrameForm form;
};

// Does on a GPU what FramePicker does on the CPU: decodes chosen frames of a video, each exactly, from the last key
// frame before them, or from the current position if that is nearer. One thread at a time.
class GpuFramePicker {
  public:
    // The feed and the index must live as long as the picker. Throws MediaError, which ends with the target's remedy,
    // if NVDEC does not decode the video.
    GpuFramePicker(std::shared_ptr<const Stream> stream, PacketFeed& feed, const VideoIndex& index,
                   const GpuVideoReader::Target& target);

    using Take = std::function<void(std::size_t frame, GpuFrame decoded)>;

    // Calls `take` for each of these frames, which must be in ascending order, once.
    void pick(const std::vector<std::size_t>& frames, const Take& take);

    // Says that other code has used the feed.
    void forget() { next_ = kNone; }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    // Copies of that many frames may be under way.
    static constexpr std::size_t kTogether = 8;

    struct Shown {
        GpuFrame frame;
        bool doubtful = false;  // Whether a frame that it builds on was lost.
    };

    [[nodiscard]] bool wants(std::int64_t time);
    GpuFrame decode(std::size_t frame, std::size_t last);
    bool decode_next();
    bool decode_from_here(std::size_t frame, std::size_t last);
    void collect();
    void go_to(std::size_t position);
    [[nodiscard]] std::size_t last_of_run(std::size_t first) const;

    std::shared_ptr<const Stream> stream_;
    PacketFeed& feed_;
    const VideoIndex& index_;
    LossWatch losses_;
    GpuVideoReader reader_;
    std::vector<std::size_t> wanted_;     // The frames of this call.
    std::map<std::size_t, Shown> shown_;  // Those that came and were not taken, and a few that follow them.
    std::size_t next_ = kNone;            // The position of the packet that the feed gives next,
    std::size_t passed_ = kNone;          // and the frame that was shown last, as in FramePicker.
};

// Does on a GPU what PictureArray does with exact pictures: one array of pictures, with the size of the first one
// added. Frames are converted at their full size, and resized with the tables of the CPU.
class GpuPictureArray {
  public:
    struct Target {
        cuda::Device device = 0;
        cuda::Stream stream = nullptr;
        std::string kernel_folder;
        std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;  // Of the array.
    };

    // The options must live as long as the array is being made.
    GpuPictureArray(const LoadOptions& options, int rotation, std::size_t count, const Target& target);

    // Adds a frame for a row. It may be converted later.
    void add(GpuFrame frame, std::size_t row);

    // Makes a row equal to another one, which was added.
    void copy(std::size_t from, std::size_t to);

    // Returns the array, whose rows must have been added. All work is done.
    cuda::DeviceMemory take();

    [[nodiscard]] const std::vector<std::size_t>& shape() const { return shape_; }

  private:
    // Frames are converted together up to that.
    static constexpr std::size_t kMostFrames = 16;
    static constexpr std::size_t kMostWorkspace = std::size_t{1} << 28;

    struct Waiting {
        GpuFrame frame;
        std::size_t row = 0;
    };

    void begin(Size canvas);
    void convert();

    const LoadOptions& options_;
    int rotation_;
    std::size_t count_;
    Target target_;
    const cuda::Kernels& kernels_;
    SharedTables tables_;
    std::vector<Waiting> waiting_;  // Of one form.
    cuda::DeviceMemory memory_;
    std::vector<std::size_t> shape_;
    Size canvas_;
    std::size_t row_bytes_ = 0;
};

}  // namespace spdl
