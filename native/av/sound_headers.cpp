#include "av/sound_headers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#define SPDL_CLMUL __attribute__((target("pclmul,ssse3")))
#endif

#include "av/coded_pictures.h"
#include "core/bytes.h"
#include "core/cpu_features.h"
#include "core/image_items.h"
#include "ffmpeg/libav.h"

namespace spdl {
namespace {

// A tag of APE with a header in front says how much follows that.
std::int64_t ape_bytes(Bytes bytes) {
    constexpr unsigned kIsHeader = 0x20;
    if (bytes.size() < kApeHead || !begins(bytes, "APETAGEX") || (bytes[23] & kIsHeader) == 0) {
        return 0;
    }
    return kApeHead + ape_contents(bytes);
}

}  // namespace

// ID3v2, section 3.1: a version, flags, and a size with seven bits in each byte.
std::optional<std::int64_t> id3v2_contents(Bytes head) {
    if (head.size() < kId3v2Head || head[3] == 0xFF || head[4] == 0xFF) {
        return std::nullopt;
    }
    std::int64_t size = 0;
    for (std::size_t i = 6; i < kId3v2Head; ++i) {
        if (head[i] >= 0x80) {
            return std::nullopt;
        }
        size = size << 7 | head[i];
    }
    return size;
}

std::int64_t ape_contents(Bytes head) {
    return load_le<std::uint32_t>(head.data() + 12);
}

std::int64_t id3v2_bytes(Bytes bytes) {
    constexpr unsigned kFooter = 0x10;
    const std::optional<std::int64_t> contents = id3v2_contents(bytes);
    if (!contents || !begins(bytes, "ID3")) {
        return 0;
    }
    return kId3v2Head * ((bytes[5] & kFooter) != 0 ? 2 : 1) + *contents;
}

std::int64_t tag_bytes(Bytes bytes) {
    if (begins(bytes, "TAG")) {
        return begins(bytes, "TAG+") ? kEnhancedId3v1 : kId3v1;
    }
    return std::max(id3v2_bytes(bytes), ape_bytes(bytes));
}

namespace {

// The layers as headers number them.
constexpr std::size_t kLayerTwo = 2;
constexpr std::size_t kLayerOne = 3;

std::size_t layer_of(Bytes frame) {
    return (frame[1] >> 1) & 3;
}

}  // namespace

// ISO/IEC 11172-3, section 2.4.2.3, and for lower rates ISO/IEC 13818-3.
std::size_t mpeg_audio_bytes(Bytes frame) {
    using Rates = std::array<std::size_t, 15>;
    constexpr Rates kOne{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448};
    constexpr Rates kTwo{0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384};
    constexpr Rates kThree{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320};
    constexpr Rates kLowOne{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256};
    constexpr Rates kLow{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160};
    constexpr std::array<std::size_t, 3> kRates{44100, 48000, 32000};
    constexpr std::size_t kSync = 0xFFE;
    if (frame.size() < 4 || ((frame[0] << 4) | ((frame[1] >> 4) & 0xE)) != kSync || layer_of(frame) == 0) {
        return 0;
    }
    const std::size_t version = (frame[1] >> 3) & 3;  // 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5.
    const std::size_t layer = layer_of(frame);
    const std::size_t bits = frame[2] >> 4;
    const std::size_t rate = (frame[2] >> 2) & 3;
    if (version == 1 || bits >= kTwo.size() || rate >= kRates.size()) {
        return 0;
    }
    const bool low = version != 3;
    const Rates& table = layer == kLayerOne ? (low ? kLowOne : kOne) : low ? kLow : layer == kLayerTwo ? kTwo : kThree;
    const std::size_t kilobits = table[bits];
    const std::size_t samples = kRates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    const std::size_t padding = (frame[2] >> 1) & 1;
    if (kilobits == 0) {
        return 0;
    }
    if (layer == kLayerOne) {
        return (12'000 * kilobits / samples + padding) * 4;
    }
    const bool is_short = layer != kLayerTwo && low;
    return (is_short ? 72'000 : 144'000) * kilobits / samples + padding;
}

std::size_t layer_two_bytes(Bytes frame) {
    return frame.size() >= 2 && layer_of(frame) == kLayerTwo ? mpeg_audio_bytes(frame) : 0;
}

namespace {

// The header of a frame (RFC 9639, section 9.1).
struct FlacFrame {
    std::uint64_t number = 0;  // Of the frame, or of its first sample.
    bool counts_samples = false;
    int samples = 0;
};

// The number is coded like a letter in UTF-8, with one more byte at most. The third byte says how long a frame is, or
// that this follows the number.
FlacFrame read_frame(Bytes frame) {
    constexpr std::size_t kLeast = 6;
    FlacFrame read;
    if (frame.size() < kLeast || frame[0] != 0xFF || (frame[1] & 0xFC) != 0xF8) {
        return read;
    }
    read.counts_samples = (frame[1] & 1) != 0;
    std::size_t at = 5;
    read.number = frame[4];
    if ((frame[4] & 0x80) != 0) {
        unsigned bit = 0x40;
        for (; (frame[4] & bit) != 0; bit >>= 1) {
            ++at;
        }
        read.number = frame[4] & (bit - 1);
        for (std::size_t i = 5; i < std::min(at, frame.size()); ++i) {
            read.number = read.number << 6 | (frame[i] & 0x3FU);
        }
    }
    const int code = frame[2] >> 4;
    BitReader rest(frame.subspan(std::min(at, frame.size())));
    if (code == 1) {
        read.samples = 192;
    } else if (code >= 2 && code <= 5) {
        read.samples = 576 << (code - 2);
    } else if (code == 6) {
        read.samples = static_cast<int>(rest.take(8)) + 1;
    } else if (code == 7) {
        read.samples = static_cast<int>(rest.take(16)) + 1;
    } else if (code >= 8) {
        read.samples = 256 << (code - 8);
    }
    return read;
}

}  // namespace

int flac_samples(Bytes frame) {
    return read_frame(frame).samples;
}

std::int64_t total_samples(const AVCodecParameters& sound) {
    constexpr int kHeader = 34;
    constexpr std::size_t kTotal = 13;
    if (sound.codec_id != AV_CODEC_ID_FLAC || sound.extradata == nullptr || sound.extradata_size < kHeader) {
        return 0;
    }
    constexpr std::uint64_t k36Bits = 0xFFFFFFFFF;
    return static_cast<std::int64_t>(BoxReader(Bytes(sound.extradata + kTotal, 5)).take(5) & k36Bits);
}

void tell_times(AVPacket& frame, const AVStream& stream) {
    const AVCodecParameters& sound = *stream.codecpar;
    const FlacFrame found = read_frame({frame.data, static_cast<std::size_t>(frame.size)});
    if (found.samples == 0 || sound.extradata_size < 4 || sound.sample_rate <= 0) {
        return;
    }
    // The header begins with how long frames are, at least and at most, but for the last one.
    BoxReader header(Bytes(sound.extradata, 4));
    const std::uint64_t least = header.take(2);
    if (!found.counts_samples && least != header.take(2)) {
        return;
    }
    const AVRational sample{1, sound.sample_rate};
    const auto first = static_cast<std::int64_t>(found.counts_samples ? found.number : found.number * least);
    frame.pts = frame.dts = rescale_time(first, sample, stream.time_base);
    frame.duration = rescale_time(found.samples, sample, stream.time_base);
}

namespace {

// RFC 3533, section 6.
constexpr std::size_t kHead = 27;
constexpr std::size_t kSum = 22;
constexpr std::string_view kCapture("OggS\0", 5);
constexpr std::uint8_t kContinues = 1;
constexpr std::uint8_t kBegins = 2;
constexpr std::uint8_t kEnds = 4;
constexpr std::uint8_t kFull = 255;  // A segment that another one of the same packet follows.

// The sum is computed with its own field set to 0.
bool has_right_sum(Bytes page) {
    constexpr std::array<std::uint8_t, 4> kNone{};
    std::uint32_t sum = crc_32_ieee(0, page.first(kSum));
    sum = crc_32_ieee(sum, kNone);
    sum = crc_32_ieee(sum, page.subspan(kSum + kNone.size()));
    // libav has its bytes in the other order.
    return sum == BoxReader(page.subspan(kSum, kNone.size())).take(4);
}

// Returns whether bytes are the beginning of a page, with at most one damaged byte.
bool resembles_page(Bytes bytes) {
    const std::size_t count = std::min(bytes.size(), kCapture.size());
    const auto same = std::inner_product(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                                         kCapture.begin(), 0, std::plus<>(), std::equal_to<>());
    return count == kCapture.size() && same >= 4;
}

}  // namespace

OggPages::OggPages(std::unique_ptr<ByteSource> source) : source_(std::move(source)), size_(source_->size()) {}

std::size_t OggPages::read(std::uint8_t* into, std::size_t size) {
    const std::size_t count = source_->read(into, size);
    const std::int64_t begin = position_;
    position_ += static_cast<std::int64_t>(count);
    if (is_ogg_ && begin <= looked_ && position_ > looked_) {
        look(Bytes(into, count).subspan(static_cast<std::size_t>(looked_ - begin)));
    }
    return count;
}

void OggPages::seek(std::int64_t position) {
    source_->seek(position);
    position_ = position;
}

void OggPages::look(Bytes bytes) {
    const std::int64_t held = looked_ - static_cast<std::int64_t>(held_.size());
    looked_ += static_cast<std::int64_t>(bytes.size());
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    if (held == 0 && held_.size() >= kCapture.size() && !begins(held_, kCapture)) {
        is_ogg_ = false;
        held_ = {};
        return;
    }
    look_at_held();
}

// Returns how long the page is that begins here; 0 if none does, and nothing if it takes more to know that.
std::optional<std::size_t> OggPages::page_bytes(Bytes bytes) const {
    const auto more = finished_ ? std::optional<std::size_t>(0) : std::nullopt;
    const std::size_t count = std::min(bytes.size(), kCapture.size());
    if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count), kCapture.begin())) {
        return 0;
    }
    if (bytes.size() < kHead || bytes.size() < kHead + bytes[kHead - 1]) {
        return more;
    }
    const Bytes segments = bytes.subspan(kHead, bytes[kHead - 1]);
    const std::size_t size = std::accumulate(segments.begin(), segments.end(), kHead + segments.size());
    if (bytes.size() < size) {
        return more;
    }
    return has_right_sum(bytes.first(size)) ? size : 0;
}

void OggPages::look_at_held() {
    const Bytes held(held_);
    std::size_t at = 0;
    while (at < held.size()) {
        const Bytes rest = held.subspan(at);
        const std::int64_t place = looked_ - static_cast<std::int64_t>(rest.size());
        const std::optional<std::size_t> page = page_bytes(rest);
        if (!page) {
            break;
        }
        if (*page > 0) {
            see(rest.first(*page), place);
            at += *page;
            in_damage_ = false;
            continue;
        }
        if (!in_damage_) {
            in_damage_ = true;
            damaged_ = place;
            damaged_page_ = resembles_page(rest);
        }
        at = static_cast<std::size_t>(std::find(rest.begin() + 1, rest.end(), kCapture[0]) - held.begin());
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(at));
}

// Takes the next page that is whole. FFmpeg numbers streams by their starts; in joined files it numbers them again.
void OggPages::see(Bytes page, std::int64_t place) {
    const std::uint8_t flags = page[5];
    const auto serial = load_le<std::uint32_t>(page.data() + 14);
    const auto number = load_le<std::uint32_t>(page.data() + 18);
    const Bytes segments = page.subspan(kHead, page[kHead - 1]);
    const bool begins = (flags & kBegins) != 0;
    num_streams_ = begins && !begins_ ? 0 : num_streams_;
    begins_ = begins;
    const auto [found, is_new] = chains_.try_emplace(serial);
    Chain& chain = found->second;
    if (is_new || begins) {
        chain = {};
        chain.stream = num_streams_++;
        chain.is_header = true;
    } else {
        // A recording of a broadcast begins with the headers, and then in the middle. Some writers number nothing.
        const std::uint32_t missing = number - chain.number - 1;
        const bool damaged = damaged_ > chain.place;
        if (missing != 0 && (damaged || (!chain.is_header && missing <= INT32_MAX))) {
            losses_.try_emplace(chain.stream, Loss{chain.is_incomplete ? chain.begun : place, place});
        }
    }
    chain.number = number;
    chain.place = place;
    chain.is_header = chain.is_header && load_le<std::uint64_t>(page.data() + 6) == 0;
    chain.ended = (flags & kEnds) != 0;
    if (!segments.empty()) {
        const Bytes before = segments.first(segments.size() - 1);
        if ((flags & kContinues) == 0 || std::ranges::any_of(before, [](std::uint8_t it) { return it < kFull; })) {
            chain.begun = place;
        }
        chain.is_incomplete = segments.back() == kFull;
    }
}

std::optional<OggPages::Loss> OggPages::loss(int stream, std::int64_t page) const {
    const auto found = losses_.find(stream);
    return found == losses_.end() || page < found->second.from ? std::nullopt : std::optional(found->second);
}

// FFmpeg may have ended before the file does.
void OggPages::finish() {
    constexpr std::size_t kPiece = 1 << 16;
    if (looked_ < size_) {
        std::vector<std::uint8_t> piece(kPiece);
        const std::int64_t before = position_;
        seek(looked_);
        while (read(piece.data(), piece.size()) > 0) {
        }
        seek(before);
    }
    finished_ = true;
    look_at_held();
}

std::optional<OggPages::Loss> OggPages::loss(int stream) {
    if (is_ogg_ && !finished_) {
        finish();
    }
    if (const auto found = losses_.find(stream); found != losses_.end()) {
        return found->second;
    }
    for (const auto& [serial, chain] : chains_) {
        if (chain.stream == stream && !chain.ended && damaged_page_ && damaged_ > chain.place) {
            return Loss{damaged_, size_};
        }
    }
    return std::nullopt;
}

namespace {

std::uint32_t plain(AVCRCId id, std::uint32_t sum, Bytes bytes) {
    return av_crc(av_crc_get_table(id), sum, bytes.data(), bytes.size());
}

#if defined(__x86_64__)

// A sum of bytes is the remainder of the polynomial whose coefficients they are.
struct Divisor {
    std::uint64_t bits;
    int degree;
};

constexpr Divisor kAnsi{0x18005, 16};
constexpr Divisor kIeee{0x104C11DB7, 32};

// Returns the remainder of x to that power.
constexpr long long power(std::size_t exponent, Divisor divisor) {
    std::uint64_t remainder = 1;
    for (std::size_t i = 0; i < exponent; ++i) {
        remainder <<= 1;
        remainder ^= (remainder >> divisor.degree & 1) != 0 ? divisor.bits : 0;
    }
    return static_cast<long long>(remainder);
}

constexpr std::size_t kBlock = sizeof(__m128i);
constexpr std::size_t kLanes = 4;
constexpr std::size_t kStep = kLanes * kBlock;

// The powers that move the low and the high half of a block that many bytes ahead.
template <Divisor divisor, std::size_t bytes>
constexpr long long kLow = power(8 * bytes, divisor);
template <Divisor divisor, std::size_t bytes>
constexpr long long kHigh = power(8 * bytes + 64, divisor);

SPDL_CLMUL inline __m128i reversed(__m128i block) {
    return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

SPDL_CLMUL inline __m128i load(const std::uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Returns a block with the remainder of this one, that many bytes further ahead.
SPDL_CLMUL inline __m128i move(__m128i block, __m128i powers) {
    return _mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x11), _mm_clmulepi64_si128(block, powers, 0x00));
}

template <Divisor divisor>
SPDL_CLMUL std::uint32_t folded(AVCRCId id, std::uint32_t sum, Bytes bytes) {
    const __m128i by_step = _mm_set_epi64x(kHigh<divisor, kStep>, kLow<divisor, kStep>);
    const __m128i by_block = _mm_set_epi64x(kHigh<divisor, kBlock>, kLow<divisor, kBlock>);
    __m128i lanes[kLanes];
    // The sum of what came before is added to the first bytes.
    lanes[0] = reversed(_mm_xor_si128(load(bytes.data()), _mm_cvtsi32_si128(static_cast<int>(sum))));
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
        lanes[lane] = reversed(load(bytes.data() + lane * kBlock));
    }
    std::size_t at = kStep;
    for (; at + kStep <= bytes.size(); at += kStep) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const __m128i next = reversed(load(bytes.data() + at + lane * kBlock));
            lanes[lane] = _mm_xor_si128(move(lanes[lane], by_step), next);
        }
    }
    __m128i all = lanes[0];
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
        all = _mm_xor_si128(move(all, by_block), lanes[lane]);
    }
    alignas(kBlock) std::uint8_t rest[kBlock];
    _mm_store_si128(reinterpret_cast<__m128i*>(rest), reversed(all));
    return plain(id, plain(id, 0, rest), bytes.subspan(at));
}

#endif

}  // namespace

#if defined(__x86_64__)

std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes) {
    const bool fast = bytes.size() >= kStep && has_clmul();
    return fast ? folded<kAnsi>(AV_CRC_16_ANSI, sum, bytes) : plain(AV_CRC_16_ANSI, sum, bytes);
}

std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes) {
    const bool fast = bytes.size() >= kStep && has_clmul();
    return fast ? folded<kIeee>(AV_CRC_32_IEEE, sum, bytes) : plain(AV_CRC_32_IEEE, sum, bytes);
}

#else

std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes) {
    return plain(AV_CRC_16_ANSI, sum, bytes);
}

std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes) {
    return plain(AV_CRC_32_IEEE, sum, bytes);
}

#endif

}  // namespace spdl
