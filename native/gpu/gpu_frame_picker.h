#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "av/loss_watch.h"
#include "av/packet_feed.h"
#include "av/video_index.h"
#include "gpu/video_reader.h"

namespace spdl {

// A decoded frame, in memory that it shares with a few others.
struct GpuFrame {
    cuda::DeviceMemory memory;
    FrameForm form;
};

// Does on a GPU what FramePicker does on the CPU: decodes chosen frames of a video, each exactly, from the last key
// frame before them, or from where it is if that is nearer. One thread at a time.
class GpuFramePicker {
  public:
    // The feed and the index must live as long as the picker. Throws MediaError, which ends with the target's remedy,
    // if NVDEC does not decode the video.
    GpuFramePicker(std::shared_ptr<const Stream> stream, PacketFeed& feed, const VideoIndex& index,
                   const GpuVideoReader::Target& target);

    using Take = std::function<void(std::size_t frame, GpuFrame decoded)>;

    // Calls `take` for each of these frames, which must be in ascending order, once.
    void pick(const std::vector<std::size_t>& frames, const Take& take);

    // Says that somebody else has used the feed.
    void forget() { next_ = kNone; }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    // Copies of so many frames may be under way.
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

}  // namespace spdl
