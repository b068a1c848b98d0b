#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/packets.h"
#include "av/video_index.h"
#include "core/buffer.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/files.h"
#include "media/options.h"

namespace spdl {

// A sound or a video, and the part of it that is wanted: the file at `path`, as FileSource takes it, or bytes in memory
// if `path` has no data.
struct MediaInput {
    std::string_view path;
    Bytes bytes;
    TimeWindow window;

    // This may fail as reading does.
    [[nodiscard]] std::unique_ptr<ByteSource> open() const {
        if (path.data() == nullptr) {
            return std::make_unique<MemorySource>(bytes);
        }
        return std::make_unique<FileSource>(path);
    }
};

// Puts those rows of a batch together, one after the other, whose inputs did not fail, or all if failed ones are kept:
// `move(from, to)` moves one. Returns how many rows there are.
template <typename Move>
std::size_t keep_rows(const std::vector<std::string>& reasons, bool keep_failed, const Move& move) {
    std::size_t rows = 0;
    for (std::size_t index = 0; index < reasons.size(); ++index) {
        if (keep_failed || reasons[index].empty()) {
            if (rows != index) {
                move(index, rows);
            }
            ++rows;
        }
    }
    return rows;
}

// How the sounds of a batch are read.
struct SoundBatchOptions {
    DemuxOptions demux;
    DecodeOptions decode;
    std::string filters;                      // They give a plane of 32-bit floats for each channel.
    std::optional<std::size_t> num_frames;    // Samples of each channel; nothing for those of the longest sound.
    std::optional<std::size_t> num_channels;  // That the filters give; nothing for those that the sounds have.
    int num_threads = 1;
    bool keep_failed = false;  // Sounds that fail become silence instead of being left out.
};

struct SoundBatch {
    Buffer sounds;                      // (B, C, N), without memory if nothing could be loaded, unless
                                        // places are kept and all sides are known.
    std::vector<std::int64_t> lengths;  // The samples of each that are not padding.
    std::vector<Failure> failures;
};

// Reads and decodes the main audio stream of every input into its row of one batch, in the order of the inputs. Shorter
// sounds are continued with silence, longer ones are cut. If there is a memory, the batch is made in it. Throws
// ArrayError if there is no room for the batch.
SoundBatch load_sounds(std::span<const MediaInput> inputs, const SoundBatchOptions& options, const Memory* memory);

// Which frames of a video make a clip.
struct ClipChoice {
    std::size_t num_frames = 1;  // At most.
    bool spread = false;         // Whether they are spread over the window evenly.
    double rate = 0;             // Otherwise: that many in a second; 0 for those that follow each other.
    std::size_t step = 1;        // Otherwise: every so manieth one.
};

// Returns whether frames after the last one of the index could be among those that are chosen.
bool may_reach_behind(const VideoIndex& index, const Stream& stream, const TimeWindow& window, const ClipChoice& choice,
                      std::size_t chosen);

// Returns the frames within the window, in ascending order. There may be fewer than asked for, and a frame that is
// shown for long may come more than once.
std::vector<std::size_t> choose_frames(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                       const ClipChoice& choice);

struct VideoBatchOptions {
    const DemuxOptions& demux;
    const DecodeOptions& decode;
    ClipChoice choice;
    int num_threads = 1;
    bool keep_failed = false;  // Keep the places of videos that fail, with zeros.
};

struct VideoBatch {
    Buffer clips;  // Without memory if nothing could be loaded and no places are kept.
    std::vector<std::size_t> lengths;
    std::vector<Failure> failures;
};

// Loads a clip of every video into one array, whose size the options give. Clips that are shorter are continued with
// zeros. Failed videos are left out, unless their places are kept.
VideoBatch load_video_batch(const std::vector<MediaInput>& inputs, const LoadOptions& options,
                            const VideoBatchOptions& batch, const Memory* memory);

}  // namespace spdl
