#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/files.h"
#include "media/options.h"

namespace spdl {

// A file of sound, and the part of it that is wanted. Opening it may fail as reading does.
struct SoundInput {
    std::function<std::unique_ptr<ByteSource>()> open;
    TimeWindow window;
};

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

struct SoundFailure {
    std::size_t index;
    std::string reason;
};

struct SoundBatch {
    Buffer sounds;                      // (B, C, N), without memory if nothing could be loaded, unless
                                        // places are kept and all sides are known.
    std::vector<std::int64_t> lengths;  // The samples of each that are not padding.
    std::vector<SoundFailure> failures;
};

// Reads and decodes the main audio stream of every input into its row of one batch, in the order of the inputs. Shorter
// sounds are continued with silence, longer ones are cut. If there is a memory, the batch is made in it. Throws
// ArrayError if there is no room for the batch.
SoundBatch load_sounds(std::span<const SoundInput> inputs, const SoundBatchOptions& options, const Memory* memory);

}  // namespace spdl
