#include "av/video_batch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "av/container.h"
#include "av/frame_picker.h"
#include "av/packet_feed.h"
#include "av/picture_writer.h"
#include "av/video_scan.h"
#include "core/file_source.h"
#include "core/media_error.h"
#include "core/memory_source.h"
#include "core/parallel.h"

namespace spdl {
namespace {

std::unique_ptr<ByteSource> open(const VideoInput& input) {
    if (input.path.data() == nullptr) {
        return std::make_unique<MemorySource>(input.bytes);
    }
    return std::make_unique<FileSource>(input.path);
}

// Writes the clip of one video, and returns how many pictures it has.
std::size_t load_clip(const VideoInput& input, const LoadOptions& options, const VideoBatchOptions& batch,
                      std::uint8_t* to) {
    Container container(open(input), batch.demux, Probing::kPackets);
    const auto number = container.best_stream(Medium::kVideo);
    if (!number) {
        throw MediaError("there is no video stream in it");
    }
    const std::shared_ptr<const Stream> stream = container.stream(*number);
    const auto [index, damage] = scan_video(container, *number, batch.decode);
    const std::vector<std::size_t> frames = choose_frames(index, *stream, input.window, batch.choice);
    // The clip of a damaged file counts if it would be the same without the damage.
    if (!damage.empty() && may_reach_behind(index, *stream, input.window, batch.choice, frames.size())) {
        throw MediaError(damage);
    }
    if (frames.empty()) {
        throw MediaError("no frame appears within the window");
    }
    std::vector<std::size_t> wanted = frames;
    wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
    ContainerFeed feed(container, *number, index);
    FramePicker picker(stream, batch.decode, feed, index);
    PictureWriter writer(options, stream->rotation);
    const std::size_t bytes = options.format.image_bytes(options.target);
    std::size_t row = 0;
    picker.pick(wanted, [&](std::size_t frame, const FramePtr& decoded) {
        writer.open(*decoded);
        std::uint8_t* const first = to + row * bytes;
        writer.write(first);
        for (++row; row < frames.size() && frames[row] == frame; ++row) {
            std::memcpy(to + row * bytes, first, bytes);
        }
    });
    return frames.size();
}

}  // namespace

VideoBatch load_video_batch(const std::vector<VideoInput>& inputs, const LoadOptions& options,
                            const VideoBatchOptions& batch, const Memory* memory) {
    std::vector<std::size_t> shape = options.format.shape(batch.choice.num_frames, options.target);
    shape.insert(shape.begin(), inputs.size());
    VideoBatch result;
    result.clips = memory == nullptr ? allocate(std::move(shape), options.format.type())
                                     : allocate_in(*memory, std::move(shape), options.format.type());
    std::vector<std::size_t> lengths(inputs.size());
    std::vector<std::string> reasons(inputs.size());
    // No overflow: the array fits into memory.
    const std::size_t clip_bytes = batch.choice.num_frames * options.format.image_bytes(options.target);
    run_parallel(batch.num_threads, 0, inputs.size(), [&](std::size_t i) {
        std::uint8_t* const to = result.clips.data + i * clip_bytes;
        try {
            lengths[i] = load_clip(inputs[i], options, batch, to);
        } catch (const MediaError& error) {
            reasons[i] = error.what();
        }
        const std::size_t written = lengths[i] * options.format.image_bytes(options.target);
        std::memset(to + written, 0, clip_bytes - written);
    });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!reasons[i].empty()) {
            result.failures.emplace_back(i, std::move(reasons[i]));
            if (!batch.keep_failed) {
                continue;
            }
        }
        if (kept != i) {
            std::memcpy(result.clips.data + kept * clip_bytes, result.clips.data + i * clip_bytes, clip_bytes);
        }
        result.lengths.push_back(lengths[i]);
        ++kept;
    }
    if (kept == 0) {
        result.clips = {};
    } else {
        result.clips.shape.front() = kept;
    }
    return result;
}

}  // namespace spdl
