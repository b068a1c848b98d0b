#include "av/sound_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "av/container.h"
#include "av/frame_reader.h"
#include "core/media_error.h"
#include "core/parallel.h"

namespace spdl {
namespace {

// One decoded sound. Nothing of its frames is copied until the size of the batch is known.
struct Sound {
    std::vector<FramePtr> frames;
    std::size_t channels = 0;
    std::size_t samples = 0;
    std::string reason;

    [[nodiscard]] bool loaded() const { return reason.empty(); }
};

void take(Sound& sound, std::vector<FramePtr>& frames) {
    for (FramePtr& frame : frames) {
        if (frame->format != AV_SAMPLE_FMT_FLTP) {
            throw MediaError("the filters do not give a plane of 32-bit floats for each channel");
        }
        const auto channels = static_cast<std::size_t>(frame->ch_layout.nb_channels);
        if (sound.channels != 0 && channels != sound.channels) {
            throw MediaError("the number of channels changes in it from " + std::to_string(sound.channels) + " to " +
                             std::to_string(channels) + ": give num_channels");
        }
        sound.channels = channels;
        sound.samples += static_cast<std::size_t>(frame->nb_samples);
        sound.frames.push_back(std::move(frame));
    }
    frames.clear();
}

// Decodes until there are enough samples.
void decode(const SoundInput& input, const SoundBatchOptions& options, Sound& sound) {
    Container container(input.open(), options.demux);
    const std::optional<int> index = container.best_stream(Medium::kAudio);
    if (!index) {
        throw MediaError("there is no audio stream in it");
    }
    const std::shared_ptr<const Stream> stream = container.begin(*index, input.window);
    FrameReader reader(stream, options.decode, options.filters);
    reader.set_window(input.window);
    std::vector<FramePtr> frames;
    const auto enough = [&] { return options.num_frames && sound.samples >= *options.num_frames; };
    while (!enough()) {
        const PacketPtr packet = container.read();
        if (!packet || is_behind(*packet, *stream, input.window)) {
            reader.flush(frames);
            take(sound, frames);
            break;
        }
        reader.add(*packet, frames);
        take(sound, frames);
    }
    if (sound.samples == 0) {
        throw MediaError("there is no sound within the window");
    }
}

// Copies what fits of a sound to its row of the batch, and puts silence behind it.
std::size_t write(const Sound& sound, std::size_t length, std::uint8_t* row) {
    std::size_t written = 0;
    for (const FramePtr& frame : sound.frames) {
        const std::size_t count = std::min(static_cast<std::size_t>(frame->nb_samples), length - written);
        for (std::size_t channel = 0; channel < sound.channels; ++channel) {
            std::memcpy(row + (channel * length + written) * sizeof(float), frame->extended_data[channel],
                        count * sizeof(float));
        }
        written += count;
    }
    for (std::size_t channel = 0; channel < sound.channels; ++channel) {
        std::memset(row + (channel * length + written) * sizeof(float), 0, (length - written) * sizeof(float));
    }
    return written;
}

void decode_or_report(const SoundInput& input, const SoundBatchOptions& options, Sound& sound) {
    try {
        decode(input, options, sound);
    } catch (const MediaError& error) {
        sound = Sound();
        sound.reason = error.what();
    }
}

// Makes the sounds fail that have other channels than the first.
void check_channels(std::vector<Sound>& sounds) {
    const auto first = std::ranges::find_if(sounds, [](const Sound& sound) { return sound.loaded(); });
    for (auto other = first; other < sounds.end(); ++other) {
        if (other->loaded() && other->channels != first->channels) {
            other->reason = "it has " + std::to_string(other->channels) + " channels, but the sounds before it " +
                            std::to_string(first->channels) + ": give num_channels";
        }
    }
}

}  // namespace

SoundBatch load_sounds(std::span<const SoundInput> inputs, const SoundBatchOptions& options, const Memory* memory) {
    std::vector<Sound> sounds(inputs.size());
    run_parallel(options.num_threads, 0, inputs.size(),
                 [&](std::size_t index) { decode_or_report(inputs[index], options, sounds[index]); });
    check_channels(sounds);

    SoundBatch batch;
    std::vector<const Sound*> rows;
    std::size_t channels = 0;
    std::size_t length = options.num_frames.value_or(0);
    for (std::size_t index = 0; index < sounds.size(); ++index) {
        const Sound& sound = sounds[index];
        if (!sound.loaded()) {
            batch.failures.push_back({index, sound.reason});
        } else {
            channels = sound.channels;
            length = options.num_frames ? length : std::max(length, sound.samples);
        }
        if (sound.loaded() || options.keep_failed) {
            rows.push_back(&sound);
        }
    }
    if (channels == 0) {
        return batch;
    }
    std::vector<std::size_t> shape{rows.size(), channels, length};
    batch.sounds = memory == nullptr ? allocate(std::move(shape), ElementType::kFloat32)
                                     : allocate_in(*memory, std::move(shape), ElementType::kFloat32);
    batch.lengths.resize(rows.size());
    const std::size_t row_bytes = channels * length * sizeof(float);
    run_parallel(options.num_threads, 0, rows.size(), [&](std::size_t row) {
        std::uint8_t* const to = batch.sounds.data + row * row_bytes;
        if (rows[row]->loaded()) {
            batch.lengths[row] = static_cast<std::int64_t>(write(*rows[row], length, to));
        } else {
            std::memset(to, 0, row_bytes);
        }
    });
    return batch;
}

}  // namespace spdl
