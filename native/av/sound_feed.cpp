#include "av/sound_feed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "av/file_end.h"
#include "av/frame_reader.h"
#include "av/sound_headers.h"
#include "av/stream_decoder.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/image_items.h"

namespace spdl {

std::shared_ptr<std::uint8_t> SoundStore::take(std::size_t bytes) {
    if (bytes > kPieceBytes / 4) {
        auto own = std::make_shared<AlignedBuffer>(bytes);
        std::uint8_t* const data = own->data();
        return {std::move(own), data};
    }
    const std::scoped_lock lock(mutex_);
    if (!shared_ || shared_->size() - used_ < bytes) {
        shared_ = std::make_shared<AlignedBuffer>(kPieceBytes);
        used_ = 0;
    }
    std::uint8_t* const data = shared_->data() + used_;
    used_ += bytes;
    return {shared_, data};
}

SoundStore::Piece SoundStore::keep(const std::vector<FramePtr>& frames, std::size_t channels) {
    std::size_t samples = 0;
    for (const FramePtr& frame : frames) {
        samples += static_cast<std::size_t>(frame->nb_samples);
    }
    const std::shared_ptr<std::uint8_t> data = take(channels * samples * sizeof(float));
    std::uint8_t* to = data.get();
    for (std::size_t channel = 0; channel < channels; ++channel) {
        for (const FramePtr& frame : frames) {
            const std::size_t bytes = static_cast<std::size_t>(frame->nb_samples) * sizeof(float);
            std::memcpy(to, frame->extended_data[channel], bytes);
            to += bytes;
        }
    }
    return {data, samples};
}

namespace {

// Decodes sound from some place on, and keeps only its position.
class Decoding {
  public:
    Decoding(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options)
        : decoder_(stream, options), clock_(stream, decoder_.keeps_damaged()) {}

    // Takes the next packet; null says that there are no more.
    void add(const AVPacket* packet) {
        if (packet != nullptr) {
            clock_.see(*packet);
        }
        decoder_.add(packet);
        while (const FramePtr frame = decoder_.get()) {
            const std::int64_t place = clock_.place(*frame);
            if (!started()) {
                begin_ = place;
                rate_ = frame->sample_rate;
            }
            end_ = std::max(end_, place + frame->nb_samples);
        }
    }

    [[nodiscard]] bool started() const { return rate_ > 0; }
    [[nodiscard]] std::int64_t begin() const { return begin_; }
    [[nodiscard]] std::int64_t end() const { return end_; }
    [[nodiscard]] int rate() const { return rate_; }

  private:
    StreamDecoder decoder_;
    FrameClock clock_;
    std::int64_t begin_ = 0;
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
    int rate_ = 0;
};

// Decodes the last packets. Returns their end.
std::int64_t decode_end(LastPackets& packets, Decoding& decoding) {
    while (const PacketPtr packet = packets.take()) {
        try {
            decoding.add(packet.get());
        } catch (const MediaError&) {
            // The data that the first packets depend on is missing.
            if (decoding.started()) {
                throw;
            }
        }
    }
    decoding.add(nullptr);
    return decoding.end();
}

}  // namespace

SoundExtent measure_sound(Container& container, int index, const DecodeOptions& options) {
    container.check_one_clock(index);
    SoundFeed feed(container, index, {});
    const std::shared_ptr<const Stream>& stream = feed.stream();
    Decoding beginning(stream, options);
    LastPackets ending(*stream->parameters);
    const AVRational sample{1, std::max(stream->parameters->sample_rate, 1)};
    // Without exact times, the end is unknown.
    bool timed = !is_counted(*stream);
    while (PacketPtr packet = feed.next()) {
        timed = timed && time_of(*packet) != AV_NOPTS_VALUE;
        if (!beginning.started() || !timed) {
            beginning.add(packet.get());
        }
        if (timed) {
            const std::int64_t samples = rescale_time(packet->duration, stream->time_base, sample);
            ending.add(std::move(packet), samples);
        }
    }
    if (!beginning.started() || !timed) {
        beginning.add(nullptr);
    }
    if (!beginning.started()) {
        throw MediaError("there is no sound in the " + stream->describe());
    }
    std::int64_t end = beginning.end();
    if (timed) {
        Decoding last(stream, options);
        end = std::max(end, decode_end(ending, last));
    }
    return {beginning.begin(), end - beginning.begin(), beginning.rate()};
}

namespace {

// The first bytes of another source, in which a number of 64 bits may be replaced.
class Front final : public ByteSource {
  public:
    Front(std::unique_ptr<ByteSource> source, std::int64_t size) : source_(std::move(source)), size_(size) {}

    // Has a number of that many bytes, little-endian, read in the place of another.
    void replace(std::uint64_t place, std::uint64_t number, std::int64_t bytes) {
        replaced_.push_back({static_cast<std::int64_t>(place), number, bytes});
    }

    [[nodiscard]] std::int64_t size() override { return size_; }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        const std::size_t count = source_->read(into, std::min(size, static_cast<std::size_t>(size_ - position_)));
        const std::int64_t end = position_ + static_cast<std::int64_t>(count);
        for (const auto& [place, number, bytes] : replaced_) {
            for (std::int64_t at = std::max(position_, place); at < std::min(end, place + bytes); ++at) {
                into[at - position_] = static_cast<std::uint8_t>(number >> (8 * (at - place)));
            }
        }
        position_ = end;
        return count;
    }

    void seek(std::int64_t position) override {
        source_->seek(position);
        position_ = position;
    }

  private:
    struct Replaced {
        std::int64_t place;
        std::uint64_t number;
        std::int64_t bytes;
    };

    std::unique_ptr<ByteSource> source_;
    std::int64_t size_;
    std::int64_t position_ = 0;
    std::vector<Replaced> replaced_;
};

// A source that is read in small parts, from its beginning on or from its end backwards. Each read may be a request to
// a server, so a piece is kept in which the next part lies, too.
class Looked {
  public:
    explicit Looked(ByteSource& source) : source_(source), size_(source.size()) {}

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Returns the bytes at a position; nothing if there are fewer.
    template <std::size_t N>
    std::optional<std::array<std::uint8_t, N>> at(std::int64_t position) {
        constexpr auto kCount = static_cast<std::int64_t>(N);
        std::array<std::uint8_t, N> bytes{};
        if (position < 0 || position > size_ - kCount) {
            return std::nullopt;
        }
        if (position < begin_ || position + kCount > begin_ + static_cast<std::int64_t>(piece_.size())) {
            const std::int64_t most = position + kCount <= kFront ? kFront : kPiece;
            begin_ = std::max<std::int64_t>(position + kCount - most, 0);
            piece_.resize(static_cast<std::size_t>(std::min(most, size_ - begin_)));
            read(begin_, piece_.data(), piece_.size());
        }
        std::copy_n(piece_.begin() + (position - begin_), N, bytes.begin());
        return bytes;
    }

  private:
    static constexpr std::int64_t kFront = 64;
    static constexpr std::int64_t kPiece = 8192;

    // Bytes that are missing from a shortened file stay 0.
    void read(std::int64_t position, std::uint8_t* into, std::size_t size) {
        std::fill_n(into, size, std::uint8_t{0});
        source_.seek(position);
        for (std::size_t done = 0, count = 1; done < size && count > 0; done += count) {
            count = source_.read(into + done, size - done);
        }
    }

    ByteSource& source_;
    std::int64_t size_;
    std::int64_t begin_ = 0;
    std::vector<std::uint8_t> piece_;
};

template <std::size_t N>
bool begins(const std::optional<std::array<std::uint8_t, N>>& bytes, std::string_view name) {
    return bytes && spdl::begins(Bytes(*bytes), name);
}

// Whether these are the letters at a position.
template <std::size_t N>
bool has(Looked& file, std::int64_t position, const char (&letters)[N]) {
    return begins(file.at<N - 1>(position), {letters, N - 1});
}

// MPEG audio and ADTS begin with a word for synchronisation, and may have a tag in front.
bool is_stream_of_frames(Looked& file) {
    const auto front = file.at<4>(0);
    if (!front) {
        return false;
    }
    constexpr unsigned kSync = 0xFFE;
    const unsigned word = static_cast<unsigned>((*front)[0]) << 4 | (*front)[1] >> 4;
    constexpr std::array<std::string_view, 8> kNames{"ID3", "\x0B\x77", "fLaC", "wvpk", "TTA", "MAC ", "MP+", "MPCK"};
    return (word & kSync) == kSync ||
           std::ranges::any_of(kNames, [&](std::string_view name) { return begins(front, name); });
}

// The following return the start of the tag that ends at `end`; `end` if it is not their kind.

std::int64_t before_id3v1(Looked& file, std::int64_t end) {
    if (!has(file, end - kId3v1, "TAG")) {
        return end;
    }
    const std::int64_t begin = end - kId3v1;
    return has(file, begin - kEnhancedId3v1, "TAG+") ? begin - kEnhancedId3v1 : begin;
}

std::int64_t before_id3v2(Looked& file, std::int64_t end) {
    const auto foot = file.at<kId3v2Head>(end - kId3v2Head);
    if (!begins(foot, "3DI")) {
        return end;
    }
    const std::int64_t begin = end - 2 * kId3v2Head - id3v2_contents(*foot).value_or(0);
    return has(file, begin, "ID3") ? begin : end;
}

// Version 1 has no header.
std::int64_t before_ape(Looked& file, std::int64_t end) {
    const auto foot = file.at<kApeHead>(end - kApeHead);
    if (!begins(foot, "APETAGEX")) {
        return end;
    }
    const std::int64_t begin = end - ape_contents(*foot);
    if (begin < 0 || begin > end - kApeHead) {
        return end;
    }
    return has(file, begin - kApeHead, "APETAGEX") ? begin - kApeHead : begin;
}

// Version 2 says its size in six digits; version 1 has at most 5,100 bytes between its words.
std::int64_t before_lyrics(Looked& file, std::int64_t end) {
    constexpr std::int64_t kWord = 9;
    constexpr std::int64_t kDigits = 6;
    constexpr std::int64_t kMost = 5100;
    if (has(file, end - kWord, "LYRICS200")) {
        const auto digits = file.at<kDigits>(end - kWord - kDigits);
        std::int64_t size = 0;
        for (const std::uint8_t digit : digits.value_or(std::array<std::uint8_t, kDigits>{})) {
            size = size * 10 + (digit - '0');
        }
        const std::int64_t begin = end - kWord - kDigits - size;
        return has(file, begin, "LYRICSBEGIN") ? begin : end;
    }
    if (has(file, end - kWord, "LYRICSEND")) {
        for (std::int64_t begin = end - kWord - 11; begin >= end - kWord - 11 - kMost; --begin) {
            if (has(file, begin, "LYRICSBEGIN")) {
                return begin;
            }
        }
    }
    return end;
}

// Files have a handful. Of one that is nothing but tags, no more is looked at.
std::int64_t before_tags(Looked& file, std::int64_t end) {
    constexpr int kMost = 20;
    std::int64_t before = end + 1;
    for (int i = 0; i < kMost && end < before; ++i) {
        before = end;
        for (const auto find : {before_id3v1, before_id3v2, before_ape, before_lyrics}) {
            end = find(file, end);
        }
    }
    return end;
}

// The header of AU says where the sound begins, and how long it is. No size, or the largest, leaves it open.
std::int64_t end_of_au(Looked& file) {
    const auto head = file.at<12>(0);
    BoxReader numbers(Bytes(*head).subspan(4));
    const auto begin = static_cast<std::int64_t>(numbers.take(4));
    const auto size = static_cast<std::int64_t>(numbers.take(4));
    return size == 0 ? file.size() : std::min(begin + size, file.size());
}

// Wave64 has chunks that begin with an identifier and a size, which counts both and is rounded up to 8 bytes. FFmpeg
// refuses a file if something else follows.
std::int64_t end_of_w64(Looked& file) {
    constexpr std::int64_t kHead = 24;
    constexpr int kMostChunks = 100;
    std::int64_t position = 40;
    for (int i = 0; i < kMostChunks; ++i) {
        const auto head = file.at<kHead>(position);
        const auto size = head ? load_le<std::uint64_t>(head->data() + 16) : 0;
        if (size < kHead || size > static_cast<std::uint64_t>(file.size() - position)) {
            break;
        }
        position += static_cast<std::int64_t>((size + 7) / 8 * 8);
        if (begins(head, "data")) {
            return std::min(position, file.size());
        }
    }
    return file.size();
}

// FFmpeg takes a size of 0 for an open one, even without sound, but not one of 64 bits. It takes samples for as short
// as the bits that are used of them.
std::unique_ptr<ByteSource> wav_with_sizes(std::unique_ptr<ByteSource> source, const WavSizes& sizes) {
    source->seek(0);
    const std::uint64_t found = bytes_of_sound(sizes);
    if (sizes.data == 0 && found == 0) {
        return std::make_unique<Front>(std::move(source), static_cast<std::int64_t>(sizes.file - sizes.present));
    }
    const bool is_open = sizes.place > 0 && is_open_size(sizes.data);
    if (!is_open && sizes.used == 0) {
        return source;
    }
    auto mended = std::make_unique<Front>(std::move(source), static_cast<std::int64_t>(sizes.file));
    if (is_open) {
        mended->replace(sizes.place, found, 8);
    }
    if (sizes.used > 0) {
        mended->replace(sizes.used, sizes.bits, 2);
    }
    return mended;
}

}  // namespace

std::unique_ptr<ByteSource> front_with_sound(std::unique_ptr<ByteSource> source) {
    const std::int64_t size = source->size();
    if (size == ByteSource::kUnknown) {
        return frames_of_joined(std::move(source));
    }
    Looked file(*source);
    std::int64_t end = size;
    const bool is_frames = is_stream_of_frames(file);
    if (is_frames) {
        end = before_tags(file, size);
    } else if (size >= 12 && has(file, 0, ".snd")) {
        end = end_of_au(file);
    } else if (has(file, 0, "riff") && has(file, 24, "wave")) {
        end = end_of_w64(file);
    } else if (has(file, 8, "WAVE")) {
        source->seek(0);
        if (const std::optional<WavSizes> sizes = find_wav_sizes(*source)) {
            return wav_with_sizes(std::move(source), *sizes);
        }
    }
    source->seek(0);
    if (end < size) {
        source = std::make_unique<Front>(std::move(source), end);
    }
    return is_frames ? frames_of_joined(std::move(source)) : std::move(source);
}

namespace {

// Returns whether the times in a container are exact to the sample, also after a seek, and only go forward.
bool has_exact_times(std::string_view format, const Stream& stream) {
    constexpr std::array<std::string_view, 10> kExact{
        "mov,mp4,m4a,3gp,3g2,mj2", "wav", "w64", "aiff", "au", "caf", "mp3", "tta", "wv", "ape"};
    // FFmpeg takes the sizes of packets of FLAC in CAF for their durations if they are alone.
    const bool flac_in_caf = format == "caf" && stream.parameters->codec_id == AV_CODEC_ID_FLAC;
    return std::ranges::find(kExact, format) != kExact.end() && !flac_in_caf && times_are_exact(stream);
}

// Returns whether a container leads to the begin of a window, and tells which sample is when from there on. Behind the
// end that an MP3 file says another one may follow.
bool leads_to(Container& container, int index, const Stream& stream, const TimeWindow& window) {
    const std::string_view format = container.format();
    if (!has_exact_times(format, stream) || is_counted(stream) || depends_on_all(*stream.parameters)) {
        return false;
    }
    if (format != "mp3") {
        return true;
    }
    const AVRational sample{1, stream.parameters->sample_rate};
    const std::optional<std::int64_t> end = container.promised_end(index);
    return window.start && end && sample_at(*window.start, sample.den) < rescale_time(*end, stream.time_base, sample);
}

// Has a packet say how much of what it decodes to is left out. The demuxer of Ogg counts on from the packet before,
// which after a seek is another one.
void tell_left_out(AVPacket& packet, std::uint32_t begin, std::uint32_t end) {
    constexpr std::size_t kSize = 10;  // As FFmpeg describes AV_PKT_DATA_SKIP_SAMPLES.
    std::size_t size = 0;
    std::uint8_t* told = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (told == nullptr || size < kSize) {
        if (begin == 0 && end == 0) {
            return;
        }
        told = av_packet_new_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, kSize);
        require_memory(told != nullptr);
        std::fill_n(told, kSize, std::uint8_t{0});
    }
    store_le(told, begin);
    store_le(told + sizeof(begin), end);
}

}  // namespace

SoundFeed::SoundFeed(Container& container, int index, const TimeWindow& window)
    : container_(container),
      index_(index),
      window_(window),
      stream_(container.stream(index)),
      before_(*stream_->parameters) {
    if (!window.whole()) {
        container.check_one_clock(index);
    }
    if (!leads_to(container, index, *stream_, window)) {
        begin();
        return;
    }
    TimeWindow begun;
    if (window.start) {
        const int rate = stream_->parameters->sample_rate;
        begun.start = Moment{sample_at(*window.start, rate) - before_.least(), rate};
    }
    container.begin(index, begun);
}

// Begins in a container whose times are not exact.
void SoundFeed::begin() {
    const int rate = stream_->parameters->sample_rate;
    const bool told = rate > 0 && PacketSamples(*stream_->parameters).known();
    const std::size_t wanted = told && window_.start && known().finished() && !depends_on_all(*stream_->parameters)
                                   ? known().begin(sample_at(*window_.start, rate), before_.least())
                                   : 0;
    const std::shared_ptr<const Stream> stream = told ? count_samples(*stream_) : stream_;
    if (wanted == 0 || !seek(wanted)) {
        known_.reset();
        container_.begin(index_, {});
        if (told) {
            // A reader of a part does not need it.
            const bool fills = window_.whole() && !known().finished();
            if (fills) {
                known() = {};
            }
            const std::int64_t period = rescale_time(container_.period(index_), stream_->time_base, {1, rate});
            clock_.emplace(stream, stream_->time_base, container_.tells_each_time(), period,
                           fills ? &known() : nullptr);
        }
    }
    stream_ = stream;
}

// Goes to a packet of the index, which is not the first one. Returns whether it was found. The first packets after a
// seek may be cut, or have names that others have, and some demuxers go too far.
bool SoundFeed::seek(std::size_t wanted) {
    container_.select({index_});
    for (const std::size_t back : {4U, 32U, 256U}) {
        try {
            if (wanted > back && wanted < known().size() && seek_from(wanted - back, wanted)) {
                return true;
            }
        } catch (const MediaError&) {
            // Reading from the beginning reports it.
            return false;
        }
    }
    return false;
}

bool SoundFeed::seek_from(std::size_t near, std::size_t wanted) {
    constexpr std::size_t kMost = 400;
    const SoundIndex::Entry& entry = known()[near];
    known_.reset();
    if (entry.time == AV_NOPTS_VALUE || entry.byte < 0 || !container_.go_near(index_, entry.time, entry.byte)) {
        return false;
    }
    for (std::size_t count = 0; count < kMost && !known_; ++count) {
        const PacketPtr packet = container_.read();
        known_ = packet ? known().find(SoundIndex::name(*packet)) : std::nullopt;
    }
    if (!known_ || ++*known_ > wanted) {
        return false;
    }
    while (*known_ < wanted) {
        const PacketPtr packet = container_.read();
        if (!packet || SoundIndex::name(*packet) != known()[(*known_)++].name) {
            return false;
        }
    }
    return true;
}

// Returns the next packet, which is in the index; null at the end.
PacketPtr SoundFeed::take_known() {
    PacketPtr packet = container_.read();
    if (packet == nullptr && *known_ == known().size()) {
        return nullptr;
    }
    if (packet == nullptr || *known_ >= known().size() || SoundIndex::name(*packet) != known()[*known_].name) {
        throw MediaError("the " + stream_->describe() + " has other packets than when it was read first");
    }
    const SoundIndex::Entry& entry = known()[(*known_)++];
    tell_left_out(*packet, entry.begin, entry.end);
    SampleClock::put(*packet, entry.place, entry.samples);
    return packet;
}

// Returns the next packet of the stream; null at the end, or at damage, which is reported when the packets before it
// are used up.
PacketPtr SoundFeed::read() {
    try {
        return container_.read();
    } catch (const MediaError&) {
        failure_ = std::current_exception();
        return nullptr;
    }
}

// Returns the next packet that the clock has placed; null at the end.
PacketPtr SoundFeed::take() {
    if (known_) {
        return take_known();
    }
    for (;;) {
        if (PacketPtr packet = clock_->take()) {
            return packet;
        }
        if (clock_->ended()) {
            if (failure_) {
                std::rethrow_exception(failure_);
            }
            if (window_.whole()) {
                known().finish();
            }
            return nullptr;
        }
        if (PacketPtr packet = read()) {
            clock_->add(std::move(packet));
        } else {
            clock_->end();
        }
    }
}

bool SoundFeed::is_before(const AVPacket& packet) const {
    return window_.start && packet.pts + packet.duration <= sample_at(*window_.start, stream_->time_base.den);
}

PacketPtr SoundFeed::next() {
    if (!clock_ && !known_) {
        PacketPtr packet = container_.read();
        return packet && !is_behind(*packet, *stream_, window_) ? std::move(packet) : nullptr;
    }
    if (!first_) {
        while ((first_ = take()) && is_before(*first_) && !depends_on_all(*stream_->parameters)) {
            const std::int64_t samples = first_->duration;
            before_.add(std::move(first_), samples);
        }
    }
    if (PacketPtr packet = before_.take()) {
        return packet;
    }
    return first_ && !is_behind(*first_, *stream_, window_) ? std::move(first_) : nullptr;
}

PacketList demux_sound(Container& container, int index, const TimeWindow& window) {
    SoundFeed feed(container, index, window);
    PacketList list{feed.stream(), {}, window};
    while (PacketPtr packet = feed.next()) {
        list.packets.push_back(std::move(packet));
    }
    return list;
}

}  // namespace spdl
