#include "av/samples.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "av/coded_pictures.h"
#include "av/sound_headers.h"
#include "core/bytes.h"
#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::size_t kSeveral = static_cast<std::size_t>(-1);

}  // namespace

// FNV-1a, by Fowler, Noll and Vo.
std::uint64_t SoundIndex::name(const AVPacket& packet) {
    constexpr std::uint64_t kPrime = 0x100000001B3;
    constexpr int kLooked = 64;
    std::uint64_t hash = 0xCBF29CE484222325 ^ static_cast<std::uint64_t>(packet.pos) * kPrime;
    hash = (hash ^ static_cast<std::uint64_t>(packet.size)) * kPrime;
    for (int i = 0; i < std::min(packet.size, kLooked); ++i) {
        hash = (hash ^ packet.data[i]) * kPrime;
    }
    return hash;
}

void SoundIndex::add(const Entry& entry) {
    const auto [found, is_new] = numbers_.emplace(entry.name, entries_.size());
    if (!is_new) {
        found->second = kSeveral;
    }
    entries_.push_back(entry);
}

std::size_t SoundIndex::begin(std::int64_t place, std::int64_t samples_before) const {
    const auto after =
        std::ranges::upper_bound(entries_, place, {}, [](const Entry& it) { return it.place + it.samples; });
    auto number = static_cast<std::size_t>(after - entries_.begin());
    for (std::int64_t samples = 0; number > 0 && samples < samples_before; --number) {
        samples += entries_[number - 1].samples;
    }
    return number;
}

std::optional<std::size_t> SoundIndex::find(std::uint64_t name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() || found->second == kSeveral ? std::nullopt : std::optional(found->second);
}

namespace {

// A time that is wrong is right again after a few packets.
constexpr std::size_t kPacketsAhead = 8;
// Damaged packets may have no samples.
constexpr std::size_t kMostAhead = 1000;
constexpr int kPartOfSecond = 8;

// Returns by how many samples a time may be off. Up to three numbers are rounded: the time, what was left out in front
// of the sound (Matroska takes that off every time), and the duration that a demuxer has added to the time before.
// Clocks of other devices may have written them, so that they are allowed a millisecond in any case. FFmpeg derives the
// times of Vorbis in Ogg from the sizes of blocks, gets some wrong where these change, and so copies them elsewhere.
std::int64_t largest_error(const Stream& counted, AVRational unit) {
    constexpr int kRounded = 3;
    constexpr int kMadeUp = 4;
    constexpr int kMilliseconds = 1000;
    constexpr int kLargestBlock = 8192;
    const int rate = counted.parameters->sample_rate;
    const std::int64_t rounding = av_rescale_q_rnd(kRounded, unit, {1, rate}, AV_ROUND_UP);
    const std::int64_t block = counted.parameters->codec_id == AV_CODEC_ID_VORBIS ? kLargestBlock : 0;
    return std::max({rounding + kMadeUp, std::int64_t{rate} / kMilliseconds + kMadeUp, block});
}

}  // namespace

std::shared_ptr<const Stream> count_samples(const Stream& stream) {
    const AVRational sample{1, stream.parameters->sample_rate};
    Stream counted = stream;
    for (std::int64_t* const time : {&counted.start, &counted.duration}) {
        *time = *time == AV_NOPTS_VALUE ? AV_NOPTS_VALUE : rescale_time(*time, stream.time_base, sample);
    }
    counted.time_base = sample;
    counted.counts_samples = true;
    return std::make_shared<const Stream>(std::move(counted));
}

void SampleClock::put(AVPacket& packet, std::int64_t place, std::int64_t samples) {
    packet.pts = place;
    packet.dts = place;
    packet.duration = samples;
}

SampleClock::SampleClock(std::shared_ptr<const Stream> counted, AVRational unit, bool timed, std::int64_t period,
                         SoundIndex* index)
    : counted_(std::move(counted)),
      unit_(unit),
      timed_(timed),
      period_(period),
      allowed_(largest_error(*counted_, unit)),
      samples_(*counted_->parameters),
      index_(index) {}

void SampleClock::add(PacketPtr packet) {
    Queued queued;
    const std::int64_t time = time_of(*packet);
    if (time != AV_NOPTS_VALUE) {
        queued.time = rescale_time(time, unit_, counted_->time_base);
    }
    const int samples = samples_.of(*packet);
    if (samples > 0) {
        usual_ = samples;
    }
    // In Ogg there are headers among the packets. Others that do not tell are damaged.
    const AVCodecID codec = counted_->parameters->codec_id;
    const bool in_ogg = codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_FLAC;
    queued.samples = in_ogg ? samples : usual_;
    std::size_t size = 0;
    const std::uint8_t* const skipped = av_packet_get_side_data(packet.get(), AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (skipped != nullptr && size >= 2 * sizeof(std::uint32_t)) {
        queued.begin = load_le<std::uint32_t>(skipped);
        // Decoders leave out nothing if it is more than there is: that comes of a time that is wrong.
        const std::int64_t end = load_le<std::uint32_t>(skipped + sizeof(std::uint32_t));
        queued.end = end <= queued.samples ? end : 0;
    }
    ahead_ += queued.samples;
    queued.name = index_ != nullptr ? SoundIndex::name(*packet) : 0;
    queued.packet = std::move(packet);
    queue_.push_back(std::move(queued));
}

bool SampleClock::sees_enough() const {
    return ended_ || queue_.size() > kMostAhead ||
           (queue_.size() > kPacketsAhead && ahead_ > counted_->time_base.den / kPartOfSecond);
}

PacketPtr SampleClock::take() {
    if (queue_.empty() || !sees_enough()) {
        return nullptr;
    }
    const std::int64_t found = place();
    Queued taken = std::move(queue_.front());
    queue_.pop_front();
    ahead_ -= taken.samples;
    const std::int64_t samples = taken.samples - taken.end;
    next_ = found + samples;
    if (index_ != nullptr) {
        index_->add({taken.name, taken.packet->pos, time_of(*taken.packet), found, samples,
                     static_cast<std::uint32_t>(taken.begin), static_cast<std::uint32_t>(taken.end)});
    }
    put(*taken.packet, found, samples);
    return std::move(taken.packet);
}

// Returns where the first packet begins: as the first time says that there is.
std::int64_t SampleClock::first_place() const {
    // The first packet of Vorbis decodes to nothing.
    const bool silent = counted_->parameters->codec_id == AV_CODEC_ID_VORBIS && queue_.size() > 1;
    std::int64_t before = 0;
    for (const Queued& queued : queue_) {
        if (queued.time && !(silent && &queued == &queue_.front())) {
            // If the decoder leaves out the encoder's padding, the sound begins at 0, which is more precise than a
            // rounded time. One that is further off means what it says.
            const std::int64_t found = *queued.time - before;
            const std::int64_t padding = counted_->parameters->initial_padding;
            const std::int64_t rounding = av_rescale_q_rnd(1, unit_, counted_->time_base, AV_ROUND_UP);
            return padding > 0 && std::abs(found + padding) <= rounding ? -padding : found;
        }
        before += queued.samples - queued.end;
    }
    return counted_->start == AV_NOPTS_VALUE ? 0 : counted_->start;
}

bool SampleClock::agrees(std::int64_t time, std::int64_t place) const {
    return std::abs(time + offset_ - place) <= allowed_;
}

// Returns whether the packets after the next one have the right times if that one lies at a place, whatever its own
// time.
bool SampleClock::is_taken_back(std::int64_t place) const {
    for (std::size_t i = 1; i < queue_.size(); ++i) {
        place += queue_[i - 1].samples - queue_[i - 1].end;
        if (queue_[i].time && agrees(*queue_[i].time, place - queue_[i].begin)) {
            return true;
        }
    }
    return false;
}

std::int64_t SampleClock::place() {
    const Queued& queued = queue_.front();
    if (!next_) {
        return first_place();
    }
    const std::int64_t expected = *next_ - queued.begin;
    if (!timed_ || !queued.time || agrees(*queued.time, expected) || is_taken_back(expected)) {
        return expected;
    }
    // See clock_period().
    const std::int64_t missing = *queued.time + offset_ - expected;
    if (missing > 0 && (period_ == 0 || missing < period_ / 2)) {
        return expected + missing;
    }
    // The times go back: another piece follows, with its own clock.
    offset_ = expected - *queued.time;
    return expected;
}

void SampleQueue::add(FramePtr frame) {
    size_ += frame->nb_samples;
    frames_.push_back(std::move(frame));
}

FramePtr SampleQueue::take(int count) {
    const AVFrame& first = *frames_.front();
    FramePtr taken = make_frame();
    taken->format = first.format;
    taken->sample_rate = first.sample_rate;
    taken->nb_samples = count;
    taken->pts = first.pts + used_;
    require_memory(av_channel_layout_copy(&taken->ch_layout, &first.ch_layout) >= 0 &&
                   av_frame_get_buffer(taken.get(), 0) >= 0);
    const auto format = static_cast<AVSampleFormat>(first.format);
    for (int filled = 0; filled < count;) {
        const AVFrame& frame = *frames_.front();
        const int part = std::min(count - filled, frame.nb_samples - used_);
        av_samples_copy(taken->extended_data, frame.extended_data, filled, used_, part, taken->ch_layout.nb_channels,
                        format);
        filled += part;
        used_ += part;
        if (used_ == frame.nb_samples) {
            frames_.pop_front();
            used_ = 0;
        }
    }
    size_ -= count;
    return taken;
}

namespace {

bool is_pcm(AVCodecID codec) {
    // PCM has one name for each format. That of discs has headers in its packets.
    return codec != AV_CODEC_ID_PCM_DVD && codec != AV_CODEC_ID_PCM_BLURAY &&
           std::string_view(avcodec_get_name(codec)).substr(0, 4) == "pcm_";
}

// RFC 6716, section 3.1: the first byte of a packet says how long its frames are, and the second how many there are if
// that is not one or two.
int opus_samples(Bytes packet) {
    if (packet.empty()) {
        return 0;
    }
    constexpr int kSilk[] = {480, 960, 1920, 2880};  // 10, 20, 40 and 60 ms at 48 kHz.
    constexpr int kHybrid[] = {480, 960};
    constexpr int kCelt[] = {120, 240, 480, 960};
    constexpr int kFirstHybrid = 12;
    constexpr int kFirstCelt = 16;
    const int configuration = packet[0] >> 3;
    const int frame = configuration < kFirstHybrid ? kSilk[configuration & 3]
                      : configuration < kFirstCelt ? kHybrid[configuration & 1]
                                                   : kCelt[configuration & 3];
    switch (packet[0] & 3) {
        case 0:
            return frame;
        case 3:
            return packet.size() < 2 ? 0 : frame * (packet[1] & 0x3F);
        default:
            return 2 * frame;
    }
}

// The header of ALAC says how long packets are,
int alac_usual(const AVCodecParameters& sound) {
    constexpr int kPlace = 12;
    if (sound.extradata_size < kPlace + 4) {
        return 0;
    }
    BitReader bits(Bytes(sound.extradata, static_cast<std::size_t>(sound.extradata_size)).subspan(kPlace));
    return static_cast<int>(bits.take(32) & 0x7FFFFFFF);
}

// and the elements of a packet whether it has another length.
int alac_samples(Bytes packet, int usual) {
    constexpr std::size_t kBefore = 3 + 4 + 12;
    BitReader bits(packet);
    bits.skip(kBefore);
    const bool told = bits.take(1) != 0;
    bits.skip(3);
    return told ? static_cast<int>(bits.take(32) & 0x7FFFFFFF) : usual;
}

// ISO/IEC 11172-3 and 13818-3, section 2.4.2.3: the version and the layer.
int mpeg_samples(Bytes frame) {
    constexpr unsigned kLayerThree = 1;
    constexpr unsigned kFirstVersion = 3;
    if (frame.size() < 4 || frame[0] != 0xFF || (frame[1] & 0xE0) != 0xE0) {
        return 0;
    }
    const bool short_frame = ((frame[1] >> 1) & 3U) == kLayerThree && ((frame[1] >> 3) & 3U) != kFirstVersion;
    return short_frame ? 576 : 1152;
}

}  // namespace

void PacketSamples::Free::operator()(AVVorbisParseContext* context) const noexcept {
    av_vorbis_parse_free(&context);
}

PacketSamples::PacketSamples(const AVCodecParameters& sound) : sound_(sound) {
    if (sound.codec_id == AV_CODEC_ID_VORBIS) {
        vorbis_.reset(av_vorbis_parse_init(sound.extradata, sound.extradata_size));
    }
}

bool PacketSamples::known() const {
    switch (sound_.codec_id) {
        case AV_CODEC_ID_AAC:
            return sound_.frame_size > 0;
        case AV_CODEC_ID_ALAC:
            return alac_usual(sound_) > 0;
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
        case AV_CODEC_ID_OPUS:
            return true;
        case AV_CODEC_ID_VORBIS:
            return vorbis_ != nullptr;
        default:
            return is_pcm(sound_.codec_id) && sound_.ch_layout.nb_channels > 0 &&
                   av_get_exact_bits_per_sample(sound_.codec_id) >= 8;
    }
}

int PacketSamples::of(const AVPacket& packet) {
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    switch (sound_.codec_id) {
        case AV_CODEC_ID_AAC:
            return sound_.frame_size;
        case AV_CODEC_ID_ALAC:
            return alac_samples(bytes, alac_usual(sound_));
        case AV_CODEC_ID_AC3:
            return 1536;
        case AV_CODEC_ID_FLAC:
            return flac_samples(bytes);
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
            return mpeg_samples(bytes);
        case AV_CODEC_ID_OPUS:
            return opus_samples(bytes);
        case AV_CODEC_ID_VORBIS:
            return vorbis_samples(packet);
        default:
            return packet.size / (av_get_exact_bits_per_sample(sound_.codec_id) / 8) / sound_.ch_layout.nb_channels;
    }
}

int PacketSamples::vorbis_samples(const AVPacket& packet) {
    std::size_t size = 0;
    if (const std::uint8_t* const header = av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size)) {
        if (AVVorbisParseContext* const next = av_vorbis_parse_init(header, static_cast<int>(size))) {
            vorbis_.reset(next);
        }
    }
    int flags = 0;
    const int samples = av_vorbis_parse_frame_flags(vorbis_.get(), packet.data, packet.size, &flags);
    if (flags != 0) {
        // A header: the decoder begins again.
        av_vorbis_parse_reset(vorbis_.get());
        return 0;
    }
    return std::max(samples, 0);
}

int bytes_of_sample(const AVCodecParameters& sound) {
    constexpr int kBitsOfByte = 8;
    return is_pcm(sound.codec_id) ? av_get_bits_per_sample(sound.codec_id) * sound.ch_layout.nb_channels / kBitsOfByte
                                  : 0;
}

bool is_counted(const Stream& stream) {
    if (stream.medium == Medium::kVideo) {
        return false;
    }
    switch (stream.parameters->codec_id) {
        case AV_CODEC_ID_AAC:
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_ALAC:
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_MP2:
        case AV_CODEC_ID_MP3:
        case AV_CODEC_ID_OPUS:
        case AV_CODEC_ID_TTA:
        case AV_CODEC_ID_VORBIS:
        case AV_CODEC_ID_WAVPACK:
            break;
        default:
            if (!is_pcm(stream.parameters->codec_id)) {
                return true;
            }
    }
    return !times_are_exact(stream);
}

bool times_are_exact(const Stream& stream) {
    const std::int64_t rate = stream.parameters->sample_rate;
    const AVRational unit = stream.time_base;
    return rate > 0 && unit.num > 0 && unit.den % (rate * unit.num) == 0;
}

}  // namespace spdl
