// Fuzzes the code that reads audio and video: demuxing, windows, indices, decoding, filters, arrays, and packets that
// were written for another process. The bytes of a file decide what is done with it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/batches.h"
#include "av/container.h"
#include "av/demux_window.h"
#include "av/frame_arrays.h"
#include "av/frame_reader.h"
#include "av/packet_archive.h"
#include "av/sound_feed.h"
#include "av/video_index.h"
#include "core/errors.h"
#include "core/files.h"
#include "draw.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "guarded.h"
#include "media/decoder.h"
#include "target.h"

extern "C" {
#include <libavutil/bswap.h>
#include <libavutil/crc.h>
}

namespace spdl::fuzz {
namespace {

// For speed: seeds have some hundred pixels, and few frames.
constexpr std::int64_t kPixels = 1 << 16;
constexpr std::int64_t kFrames = 12;

// What runs without filters, at least for the most part.
constexpr const char* kScaled = "scale=w=14:h=9:flags=bilinear,format=pix_fmts=rgb24";
constexpr const char* kChosen =
    "fps=10/1,scale=w=16:h=16:flags=area:force_original_aspect_ratio=decrease,"
    "pad=w=16:h=16:x=-1:y=-1:color=red,tpad=stop=-1:stop_mode=clone,trim=end_frame=6,format=pix_fmts=rgb24";
constexpr const char* kCropped =
    "scale=w=12:h=12:flags=bicubic:force_original_aspect_ratio=increase,crop=w=12:h=12,crop=w=9:h=5,"
    "format=pix_fmts=rgb24";

volatile std::uint8_t sink;

void touch(const Buffer& buffer) {
    std::uint8_t sum = 0;
    for (std::size_t i = 0; i < buffer.bytes(); ++i) {
        sum = static_cast<std::uint8_t>(sum + buffer.data[i]);
    }
    sink = sum;
}

// Returns whether nothing was thrown. The exceptions caught here are the answer to bad input.
template <typename Step>
bool attempt(const Step& step) {
    try {
        step();
        return true;
    } catch (const MediaError&) {
        return false;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

std::optional<Moment> moment(Draw& draw) {
    if (draw.one_in(3)) {
        return std::nullopt;
    }
    return Moment{static_cast<std::int64_t>(draw.below(400)) - 50, draw.one_of({100, 30000, 1})};
}

DecodeOptions decode_options(Draw& draw) {
    DecodeOptions options;
    options.max_pixels = kPixels;
    if (draw.one_in(4)) {
        options.decoder_options = {{"err_detect", "ignore_err"}};
    }
    return options;
}

std::unique_ptr<Container> open(Bytes bytes) {
    return std::make_unique<Container>(std::make_unique<MemorySource>(bytes), DemuxOptions{});
}

void decode_window(Draw& draw, Container& container, Medium medium) {
    const auto stream = container.best_stream(medium);
    if (!stream) {
        return;
    }
    const TimeWindow window{moment(draw), moment(draw)};
    const PacketList packets = medium == Medium::kAudio && !draw.one_in(4) ? demux_sound(container, *stream, window)
                                                                           : demux_window(container, *stream, window);
    const char* const filters =
        medium == Medium::kAudio ? draw.one_of({"", "aformat=sample_fmts=fltp", "aresample=8000"})
                                 : draw.one_of({"", "format=pix_fmts=rgb24", "scale=9:7", kScaled, kChosen, kCropped});
    const FrameList frames = read_frames(packets, decode_options(draw), filters, kFrames);
    touch(to_array(frames, nullptr));
}

void pick_frames(Draw& draw, Container& container) {
    const auto number = container.best_stream(Medium::kVideo);
    if (!number) {
        return;
    }
    const auto stream = container.stream(*number);
    const auto [index, damage] = scan_video(container, *number, decode_options(draw));
    if (index.num_frames() == 0) {
        return;
    }
    ContainerFeed feed(container, *number, index);
    FramePicker picker(stream, decode_options(draw), feed, index);
    LoadOptions options;
    options.target = {9, 7};
    options.exact = draw.one_in(2);
    options.upright = true;
    std::vector<std::size_t> frames;
    for (std::size_t frame = draw.below(index.num_frames()); frame < index.num_frames() && frames.size() < 3;
         frame += 1 + draw.below(5)) {
        frames.push_back(frame);
    }
    PictureArray array(options, stream->rotation, frames.size(), nullptr);
    std::size_t row = 0;
    picker.pick(frames, [&](std::size_t /*frame*/, const FramePtr& decoded) { array.write(*decoded, row++); });
    touch(array.take());
}

void load_batch(Draw& draw, Bytes bytes) {
    LoadOptions options;
    options.target = {8, 8};
    options.exact = false;
    const DemuxOptions demux;
    const DecodeOptions decode = decode_options(draw);
    const ClipChoice choice{1 + draw.below(5), draw.one_in(3), draw.one_in(2) ? 10.0 : 0.0, 1 + draw.below(3)};
    const VideoBatch batch = load_video_batch({{{}, bytes, {moment(draw), moment(draw)}}}, options,
                                              {demux, decode, choice, 1, true}, nullptr);
    if (batch.clips.data != nullptr) {
        touch(batch.clips);
    }
}

void measure(Draw& draw, Container& container) {
    if (const auto stream = container.best_stream(Medium::kAudio)) {
        static_cast<void>(measure_sound(container, *stream, decode_options(draw)));
    }
}

// Loads a sound twice. The rows have to be the same.
void load_batch_of_sounds(Draw& draw, Bytes bytes) {
    const MediaInput input{{}, bytes, {moment(draw), moment(draw)}};
    SoundBatchOptions options;
    options.decode = decode_options(draw);
    options.filters = draw.one_of({"aformat=sample_fmts=fltp", "aresample=8000,aformat=sample_fmts=fltp"});
    if (draw.one_in(2)) {
        options.num_frames = 1 + draw.below(3000);
    }
    options.keep_failed = draw.one_in(2);
    const SoundBatch batch = load_sounds(std::vector{input, input}, options, nullptr);
    if (batch.sounds.data == nullptr) {
        return;
    }
    touch(batch.sounds);
    const std::size_t half = batch.sounds.bytes() / 2;
    if (batch.failures.empty() && !std::equal(batch.sounds.data, batch.sounds.data + half, batch.sounds.data + half)) {
        throw std::logic_error("a sound is not the same when it is loaded again");
    }
}

}  // namespace

bool run(std::span<const std::uint8_t> input) {
    static const bool prepared = [] {
        install_log_callback();
        register_backends();
        return true;
    }();
    static_cast<void>(prepared);
    const Guarded guarded(input);
    const Bytes bytes = guarded.bytes();
    Draw draw(input);
    bool opened = false;
    attempt([&] {
        if (draw.one_in(8)) {
            load_batch(draw, bytes);
        }
        if (draw.one_in(8)) {
            load_batch_of_sounds(draw, bytes);
        }
        const std::unique_ptr<Container> container = open(bytes);
        opened = true;
        if (draw.one_in(2)) {
            pick_frames(draw, *container);
        }
        if (draw.one_in(4)) {
            measure(draw, *container);
        }
        decode_window(draw, *container, draw.one_in(3) ? Medium::kAudio : Medium::kVideo);
    });
    return opened;
}

namespace {

std::uint32_t crc(AVCRCId kind, std::span<const std::uint8_t> bytes) {
    return av_crc(av_crc_get_table(kind), 0, bytes.data(), bytes.size());
}

void write(std::span<std::uint8_t> to, std::uint32_t little_endian) {
    for (std::uint8_t& byte : to) {
        byte = static_cast<std::uint8_t>(little_endian);
        little_endian >>= 8U;
    }
}

// Repairs the checksums of pages.
void mend_ogg(std::span<std::uint8_t> bytes) {
    constexpr std::string_view kCapture = "OggS";
    constexpr std::size_t kHeader = 27;
    for (std::size_t at = 0; at + kHeader <= bytes.size();) {
        if (!std::equal(kCapture.begin(), kCapture.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at))) {
            ++at;
            continue;
        }
        std::size_t size = kHeader + bytes[at + kHeader - 1];
        for (std::size_t i = at + kHeader, end = std::min(at + size, bytes.size()); i < end; ++i) {
            size += bytes[i];
        }
        const auto page = bytes.subspan(at, std::min(size, bytes.size() - at));
        const auto checksum = page.subspan(22, 4);
        std::ranges::fill(checksum, std::uint8_t{0});
        write(checksum, av_bswap32(crc(AV_CRC_32_IEEE, page)));
        at += page.size();
    }
}

// Returns the size of a header of a frame without its checksum; 0 if that is none.
std::size_t flac_header(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < 5 || bytes[0] != 0xff || (bytes[1] & 0xfeU) != 0xf8) {
        return 0;
    }
    const unsigned block = bytes[2] >> 4U;
    const unsigned rate = bytes[2] & 15U;
    if (block == 0 || rate == 15 || bytes[3] >> 4U > 10 || (bytes[3] & 1U) != 0) {
        return 0;
    }
    // The number of the frame, as UTF-8 has it.
    const auto number = static_cast<std::size_t>(std::max(std::countl_one(bytes[4]), 1));
    return 4 + number + (block == 6 ? 1U : 0U) + (block == 7 ? 2U : 0U) + (rate == 12 ? 1U : 0U) +
           (rate == 13 || rate == 14 ? 2U : 0U);
}

// Repairs the checksums of frames and of their headers.
void mend_flac(std::span<std::uint8_t> bytes) {
    std::size_t frame = 0;  // Where the last one began.
    for (std::size_t at = 4; at <= bytes.size(); ++at) {
        const std::size_t header = at < bytes.size() ? flac_header(bytes.subspan(at)) : 0;
        if ((header == 0 || at + header >= bytes.size()) && at < bytes.size()) {
            continue;
        }
        if (frame > 0 && at - frame > 2) {
            write(bytes.subspan(at - 2, 2), crc(AV_CRC_16_ANSI, bytes.subspan(frame, at - 2 - frame)));
        }
        if (at < bytes.size()) {
            write(bytes.subspan(at + header, 1), crc(AV_CRC_8_ATM, bytes.subspan(at, header)));
        }
        frame = at;
    }
}

}  // namespace

// Most formats of audio and video do without checksums.
void mend(Input& input) {
    if (input.size() < 4) {
        return;
    }
    if (std::equal(input.begin(), input.begin() + 4, "OggS")) {
        mend_ogg(input);
    } else if (std::equal(input.begin(), input.begin() + 4, "fLaC")) {
        mend_flac(input);
    }
}

}  // namespace spdl::fuzz
