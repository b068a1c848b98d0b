#include <algorithm>
#include <cstring>
#include <utility>

#include "av/batches.h"
#include "av/container.h"
#include "av/frame_reader.h"
#include "av/sound_feed.h"
#include "core/errors.h"
#include "core/parallel.h"

namespace spdl {
namespace {

using Take = std::function<void(const FramePtr&)>;

// Decodes until there are as many samples as are wanted, and hands over the frames. Returns the number of channels.
int decode(const MediaInput& input, const SoundBatchOptions& options, const Take& take) {
    Container container(input.open(), options.demux);
    const std::optional<int> index = container.best_stream(Medium::kAudio);
    if (!index) {
        throw MediaError("there is no audio stream in it");
    }
    SoundFeed feed(container, *index, input.window);
    FrameReader reader(feed.stream(), options.decode, options.filters);
    reader.set_window(input.window);
    std::vector<FramePtr> frames;
    int channels = 0;
    std::size_t samples = 0;
    const auto hand_over = [&] {
        for (const FramePtr& frame : frames) {
            if (frame->format != AV_SAMPLE_FMT_FLTP) {
                throw MediaError("the filters do not give a plane of 32-bit floats for each channel");
            }
            if (channels != 0 && frame->ch_layout.nb_channels != channels) {
                throw MediaError("the number of channels changes in it from " + std::to_string(channels) + " to " +
                                 std::to_string(frame->ch_layout.nb_channels) + ": give num_channels");
            }
            channels = frame->ch_layout.nb_channels;
            samples += static_cast<std::size_t>(frame->nb_samples);
            take(frame);
        }
        frames.clear();
    };
    while (!options.num_frames || samples < *options.num_frames) {
        const PacketPtr packet = feed.next();
        if (!packet) {
            reader.flush(frames);
            hand_over();
            break;
        }
        reader.add(*packet, frames);
        hand_over();
    }
    if (samples > 0) {
        return channels;
    }
    // A resampler leaves nothing of a sound that is too short.
    if (!reader.sound_form()) {
        throw MediaError("there is no sound within the window");
    }
    return reader.sound_form()->ch_layout.nb_channels;
}

// A row of the batch, (C, N), that is being written.
class Row {
  public:
    Row(std::uint8_t* to, std::size_t channels, std::size_t length) : to_(to), channels_(channels), length_(length) {}

    // Writes what fits of the next samples, whose channels lie at `planes`.
    template <typename Plane>
    void write(const Plane& plane, std::size_t samples) {
        const std::size_t count = std::min(samples, length_ - written_);
        for (std::size_t channel = 0; channel < channels_; ++channel) {
            std::memcpy(at(channel), plane(channel), count * sizeof(float));
        }
        written_ += count;
    }

    // Puts silence after what was written, and returns how much that was.
    std::int64_t finish() {
        for (std::size_t channel = 0; channel < channels_; ++channel) {
            std::memset(at(channel), 0, (length_ - written_) * sizeof(float));
        }
        return static_cast<std::int64_t>(written_);
    }

  private:
    [[nodiscard]] std::uint8_t* at(std::size_t channel) const {
        return to_ + (channel * length_ + written_) * sizeof(float);
    }

    std::uint8_t* to_;
    std::size_t channels_;
    std::size_t length_;
    std::size_t written_ = 0;
};

Buffer make_batch(std::size_t rows, std::size_t channels, std::size_t length, const Memory* memory) {
    return allocate_in(memory, {rows, channels, length}, ElementType::kFloat32);
}

// The size of the batch is known: sounds are decoded in place.
SoundBatch load_in_place(std::span<const MediaInput> inputs, const SoundBatchOptions& options, std::size_t channels,
                         std::size_t length, const Memory* memory) {
    SoundBatch batch;
    batch.sounds = make_batch(inputs.size(), channels, length, memory);
    batch.lengths.resize(inputs.size());
    std::vector<std::string> reasons(inputs.size());
    const std::size_t row_bytes = channels * length * sizeof(float);
    run_parallel(options.num_threads, 0, inputs.size(), [&](std::size_t index) {
        std::uint8_t* const to = batch.sounds.data + index * row_bytes;
        try {
            Row row(to, channels, length);
            decode(inputs[index], options, [&](const FramePtr& frame) {
                row.write([&](std::size_t channel) { return frame->extended_data[channel]; },
                          static_cast<std::size_t>(frame->nb_samples));
            });
            batch.lengths[index] = row.finish();
        } catch (const MediaError& error) {
            reasons[index] = error.what();
            std::memset(to, 0, row_bytes);
        }
    });
    const std::size_t rows = keep_rows(reasons, options.keep_failed, [&](std::size_t from, std::size_t to) {
        std::memcpy(batch.sounds.data + to * row_bytes, batch.sounds.data + from * row_bytes, row_bytes);
        batch.lengths[to] = batch.lengths[from];
    });
    batch.failures = failures_of(std::move(reasons));
    if (rows == 0) {
        return {{}, {}, std::move(batch.failures)};
    }
    batch.lengths.resize(rows);
    batch.sounds.shape[0] = rows;
    return batch;
}

// One decoded sound.
struct Sound {
    std::vector<SoundStore::Piece> pieces;
    std::size_t channels = 0;
    std::size_t samples = 0;
    std::string reason;

    [[nodiscard]] bool loaded() const { return reason.empty(); }
};

Sound keep(const MediaInput& input, const SoundBatchOptions& options, SoundStore& store) {
    Sound sound;
    std::vector<FramePtr> frames;
    std::size_t bytes = 0;
    const auto put_away = [&] {
        sound.pieces.push_back(store.keep(frames, sound.channels));
        sound.samples += sound.pieces.back().samples;
        frames.clear();
        bytes = 0;
    };
    try {
        const int channels = decode(input, options, [&](const FramePtr& frame) {
            sound.channels = static_cast<std::size_t>(frame->ch_layout.nb_channels);
            const std::size_t size = sound.channels * static_cast<std::size_t>(frame->nb_samples) * sizeof(float);
            if (bytes + size > SoundStore::kPieceBytes && !frames.empty()) {
                put_away();
            }
            frames.push_back(reference(*frame));
            bytes += size;
        });
        if (!frames.empty()) {
            put_away();
        }
        sound.channels = static_cast<std::size_t>(channels);
    } catch (const MediaError& error) {
        return {{}, 0, 0, error.what()};
    }
    return sound;
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

// The size of the batch is known only after all sounds were decoded.
SoundBatch load_then_copy(std::span<const MediaInput> inputs, const SoundBatchOptions& options, const Memory* memory) {
    std::vector<Sound> sounds(inputs.size());
    {
        SoundStore store;
        run_parallel(options.num_threads, 0, inputs.size(),
                     [&](std::size_t index) { sounds[index] = keep(inputs[index], options, store); });
    }
    check_channels(sounds);

    SoundBatch batch;
    std::vector<Sound*> rows;
    std::size_t channels = 0;
    std::size_t length = options.num_frames.value_or(0);
    for (std::size_t index = 0; index < sounds.size(); ++index) {
        Sound& sound = sounds[index];
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
    batch.sounds = make_batch(rows.size(), channels, length, memory);
    batch.lengths.resize(rows.size());
    const std::size_t row_bytes = channels * length * sizeof(float);
    run_parallel(options.num_threads, 0, rows.size(), [&](std::size_t index) {
        Row row(batch.sounds.data + index * row_bytes, channels, length);
        Sound& sound = *rows[index];
        for (SoundStore::Piece& piece : sound.pieces) {
            if (sound.loaded()) {
                row.write(
                    [&](std::size_t channel) { return piece.data.get() + channel * piece.samples * sizeof(float); },
                    piece.samples);
            }
            piece.data.reset();
        }
        batch.lengths[index] = row.finish();
    });
    return batch;
}

}  // namespace

SoundBatch load_sounds(std::span<const MediaInput> inputs, const SoundBatchOptions& options, const Memory* memory) {
    if (options.num_frames && options.num_channels) {
        return load_in_place(inputs, options, *options.num_channels, *options.num_frames, memory);
    }
    return load_then_copy(inputs, options, memory);
}

}  // namespace spdl
