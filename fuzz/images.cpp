// Fuzzes the code that reads images: libjpeg-turbo's part with all of ours around it, FFmpeg's with our demuxing and
// conversion, and EXIF data. The bytes of an image decide which options it is loaded with.
//
// Each batch is made twice, by different variants of the code (the resize in portable C++ and in vectors, Huffman codes
// by libjpeg and by our own decoder) and into memory with different contents. The results have to be the same, byte by
// byte, and so have the errors.

#include <libdeflate.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "draw.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"
#include "gpu/image_batch.h"
#include "guarded.h"
#include "image/jpeg/jpeg.h"
#include "image/load/batch.h"
#include "image/load/one_image.h"
#include "image/resize/kernels.h"
#include "image/tiff/tiff.h"
#include "image_file.h"
#include "media/decoder.h"
#include "target.h"

namespace spdl::fuzz {
namespace {

// For speed: seeds have some thousand pixels.
constexpr std::int64_t kPixels = 1 << 18;
constexpr std::size_t kMostImages = 3;

volatile std::uint8_t sink;

void touch(Bytes bytes) {
    std::uint8_t sum = 0;
    for (const std::uint8_t byte : bytes) {
        sum = static_cast<std::uint8_t>(sum + byte);
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

int side(Draw& draw) {
    return 1 + static_cast<int>(draw.below(40));
}

Size sides(Draw& draw, std::size_t open) {
    return {draw.one_in(open) ? 0 : side(draw), draw.one_in(open) ? 0 : side(draw)};
}

ArrayFormat array_format(Draw& draw) {
    const auto channels = draw.one_of({Channels::kRgb, Channels::kBgr, Channels::kGray});
    const auto layout = draw.one_of({Layout::kNhwc, Layout::kNchw});
    if (draw.one_in(2)) {
        return ArrayFormat(channels, layout);
    }
    return {channels, layout, draw.one_of({ElementType::kFloat32, ElementType::kFloat16}),
            PerChannel{1.0F / 255, 0.02F, -3}, PerChannel{-2, 0.5F, 1e6F}};
}

LoadOptions make_options(Draw& draw) {
    return {.target = draw.one_in(8) ? Size{} : sides(draw, 8),
            .fit = draw.one_of({Fit::kStretch, Fit::kPad, Fit::kCrop}),
            .center = draw.one_in(8) ? sides(draw, 4) : Size{},
            .interpolation = draw.one_of({Interpolation::kNearest, Interpolation::kArea, Interpolation::kBilinear,
                                          Interpolation::kBicubic, Interpolation::kLanczos}),
            .flip = draw.one_in(2),
            .exact = draw.one_in(2),
            .upright = !draw.one_in(4),
            .format = array_format(draw).padded({1, 20, 200})};
}

// Asks for ids instead of colours.
void ask_for_ids(Draw& draw, LoadOptions& options) {
    options.ids = draw.one_of({IdSource::kIndex, IdSource::kGray16, IdSource::kAny});
    options.interpolation = Interpolation::kNearest;
    options.format = ArrayFormat::of_ids(draw.one_of({ElementType::kUint8, ElementType::kUint16, ElementType::kInt64}))
                         .padded({7, 1, 0});
}

// Returns a box that lies within most seeds, and now and then one that makes no sense.
Box box(Draw& draw) {
    if (draw.one_in(50)) {
        const auto any = [&] { return static_cast<int>(draw.below(1U << 31U)); };
        return {any(), -any(), any(), any()};
    }
    const int left = static_cast<int>(draw.below(8));
    const int top = static_cast<int>(draw.below(8));
    return {left, top, left + 1 + static_cast<int>(draw.below(8)), top + 1 + static_cast<int>(draw.below(8))};
}

// The request: a batch of the image, once or several times.
struct Question {
    LoadOptions options;
    CropsAndFlips crops;
    RandomCrop random;
    BatchOptions batch;
    std::size_t images;
    bool own_memory;

    explicit Question(Draw& draw)
        : options(make_options(draw)), images(1 + draw.below(8) % kMostImages), own_memory(draw.one_in(4)) {
        if (draw.one_in(4)) {
            ask_for_ids(draw, options);
        }
        const std::size_t cut = draw.below(4);
        for (std::size_t i = 0; i < images; ++i) {
            if (cut == 0) {
                crops.boxes.push_back(box(draw));
            }
            crops.flips.push_back(draw.one_in(2));
            random.indices.push_back(draw.below(9));
        }
        random.scale = {0.08, 1.0};
        random.ratio = {0.75, 1.33};
        crops.random = cut == 1 ? &random : nullptr;
        batch.decode.max_pixels = draw.one_in(50) ? 100 : kPixels;
        batch.decode.backend = draw.one_in(16) ? draw.one_of({&ffmpeg_backend, &libjpeg_turbo_backend}) : nullptr;
        batch.decode.keep_damaged = draw.one_in(2);
        batch.keep_failed = draw.one_in(2);
        if (draw.one_in(16)) {
            batch.page = static_cast<int>(draw.below(6)) - 3;
        }
        batch.num_threads = draw.one_in(100) ? 2 : 1;
    }

    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
};

// The variant of the code that runs.
struct Variant {
    std::string_view kernels;
    std::string_view entropy;
    std::uint8_t filling;

    void select() const {
        select_kernels(kernels);
        select_entropy_decoder(entropy);
    }
};

struct Answer {
    std::vector<std::uint8_t> images;
    std::vector<std::size_t> shape;
    std::vector<std::string> reasons;
    bool whole = false;  // Nothing failed.

    bool operator==(const Answer&) const = default;
};

Answer ask(const Question& question, const ImageInput& input, const Variant& variant) {
    variant.select();
    const std::vector<ImageInput> inputs(question.images, input);
    // Enough for as many images of the largest size that is asked for with both sides.
    const auto memory = std::make_shared<Guarded>(
        question.images *
        question.options.format.image_bytes(
            {question.options.center.width == 0 ? question.options.target.width : question.options.center.width,
             question.options.center.height == 0 ? question.options.target.height : question.options.center.height}));
    std::memset(memory->bytes().data(), variant.filling, memory->bytes().size());
    const Memory given{memory, memory->bytes().data(), memory->bytes().size(), false};
    const bool known = question.options.target.width != 0 && question.options.target.height != 0;
    Answer answer;
    attempt([&] {
        const Batch loaded = load_batch(inputs, question.options, question.crops, question.batch,
                                        known && !question.own_memory ? &given : nullptr);
        for (const Failure& failure : loaded.failures) {
            answer.reasons.push_back(failure.reason);
        }
        if (loaded.images.data != nullptr) {
            answer.images.assign(loaded.images.data, loaded.images.data + loaded.images.bytes());
            answer.shape = loaded.images.shape;
            answer.whole = loaded.failures.empty();
        }
    });
    return answer;
}

std::string difference(const Answer& one, const Answer& other) {
    if (one.reasons != other.reasons) {
        return (one.reasons.empty() ? "no error" : one.reasons.front()) + " against " +
               (other.reasons.empty() ? "no error" : other.reasons.front());
    }
    if (one.shape != other.shape || one.images.size() != other.images.size()) {
        return "another shape";
    }
    const auto [at, there] = std::ranges::mismatch(one.images, other.images);
    return "byte " + std::to_string(at - one.images.begin()) + " of " + std::to_string(one.images.size()) + " is " +
           std::to_string(*at) + " against " + std::to_string(*there);
}

// Returns whether the answers are the same, as far as they have to be: with exact=False some kernels are a level off.
// For floats, such a difference cannot be told from others here.
bool agree(const LoadOptions& options, const Answer& one, const Answer& other) {
    if (one.reasons != other.reasons || one.shape != other.shape || one.images.size() != other.images.size()) {
        return false;
    }
    if (options.exact) {
        return one.images == other.images;
    }
    return options.format.type() != ElementType::kUint8 ||
           std::ranges::equal(one.images, other.images, [](int a, int b) { return std::abs(a - b) <= 1; });
}

// Returns whether an image came out of it.
bool load(Draw& draw, const ImageInput& input) {
    const Question question(draw);
    static const auto kernels = available_kernels();
    const char* const drawn = kernels[draw.below(kernels.size())]->name;
    const Answer answer = ask(question, input, {drawn, "", 0x55});
    const Answer other = ask(question, input, {"scalar", "libjpeg", 0xaa});
    if (!agree(question.options, answer, other)) {
        throw std::logic_error(std::string("not the same with the kernels ") + drawn + ": " +
                               difference(answer, other));
    }
    return answer.whole;
}

// Returns the image of a file, or sometimes of one of its first pages, if it has any.
EncodedImage choose_page(Draw& draw, Bytes bytes) {
    EncodedImage image{bytes, {}, nullptr};
    if (draw.one_in(4)) {
        attempt([&] {
            constexpr std::size_t kMost = 8;
            if (const auto pages = tiff_pages(bytes, kMost); !pages.empty()) {
                image.page = pages[draw.below(pages.size())];
            }
        });
    }
    return image;
}

// Takes an image from one call to the next, until it is examined, or converted as it is stored. Returns whether it
// could be examined.
bool load_in_steps(Draw& draw, Bytes bytes) {
    bool examined = false;
    attempt([&] {
        const LoadOptions options = make_options(draw);
        DemuxOptions demux;
        demux.buffer_size = draw.one_of({8096, 64, 1 << 16});
        demux.format = draw.one_in(20) ? "image2pipe" : "";
        DecodeOptions decode;
        decode.max_pixels = kPixels;
        const auto packet = demux_image(nullptr, choose_page(draw, bytes), demux);
        examined = attempt([&] { packet->info(); });
        attempt([&] {
            const bool resized = draw.one_in(2);
            std::unique_ptr<Frame> frame = resized ? decode_resized(*packet, options, decode, make_packed_frame).frame
                                                   : decode_whole(*packet, decode, make_stored_frame).frame;
            const char* const filters = draw.one_in(2) ? "" : "scale=w=9:h=7";
            if (frame == nullptr) {
                frame = decode_filtered(*packet, filters, decode);
            } else if (!resized && *filters != '\0') {
                frame = filtered(std::move(frame), filters);
            }
            const Buffer buffer = frame_to_array(std::move(frame), nullptr);
            touch({buffer.data, buffer.bytes()});
        });
    });
    return examined;
}

// Returns whether the bytes hold a JPEG's header or any other picture. A batch of it may have failed because of its
// options.
bool is_readable(Bytes bytes) {
    return attempt([&] { demux_image(nullptr, {bytes, {}, nullptr}, {})->info(); });
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
    static_cast<void>(planes_for_gpu(bytes));
    Draw draw(input);
    bool passed = false;
    if (draw.one_in(4)) {
        passed = load_in_steps(draw, bytes);
    } else if (draw.one_in(16)) {
        const ImageFile file(bytes);
        passed = load(draw, {file.path(), {}});
    } else {
        passed = load(draw, {{}, bytes});
    }
    return passed || is_readable(bytes);
}

namespace {

// Repairs the lengths of segments, which say where the next one is.
void mend_jpeg(Input& input) {
    constexpr std::uint8_t kMarker = 0xff;
    constexpr std::uint8_t kScan = 0xda;
    const auto is_marker = [&](std::size_t place) {
        return place + 1 < input.size() && input[place] == kMarker && input[place + 1] >= 0xc0 &&
               input[place + 1] != kMarker;
    };
    for (std::size_t at = 2; at + 4 <= input.size() && is_marker(at) && input[at + 1] != kScan;) {
        std::size_t next = at + 2 + (std::size_t{input[at + 2]} << 8U | input[at + 3]);
        if (!is_marker(next)) {
            for (next = at + 4; next < input.size() && !is_marker(next);) {
                ++next;
            }
            const std::size_t length = next - at - 2;
            input[at + 2] = static_cast<std::uint8_t>(length >> 8U);
            input[at + 3] = static_cast<std::uint8_t>(length);
        }
        at = next;
    }
}

void write_big_endian(std::size_t value, std::uint8_t* to) {
    for (unsigned shift = 32; shift > 0; ++to) {
        *to = static_cast<std::uint8_t>(value >> (shift -= 8U));
    }
}

// Repairs the checksums of chunks.
void mend_png(Input& input) {
    for (std::size_t at = 8; at + 12 <= input.size();) {
        std::size_t length = 0;
        for (std::size_t i = at; i < at + 4; ++i) {
            length = length << 8U | input[i];
        }
        length = std::min(length, input.size() - at - 12);
        write_big_endian(length, input.data() + at);
        write_big_endian(libdeflate_crc32(0, input.data() + at + 4, length + 4), input.data() + at + 8 + length);
        at += length + 12;
    }
}

}  // namespace

void mend(Input& input) {
    if (is_jpeg(input)) {
        mend_jpeg(input);
    } else if (input.size() > 8 && input[0] == 0x89 && input[1] == 'P') {
        mend_png(input);
    }
}

}  // namespace spdl::fuzz
