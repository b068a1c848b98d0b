#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/container.h"
#include "av/demux_window.h"
#include "av/sound_headers.h"
#include "av/stream_decoder.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/files.h"
#include "core/image_items.h"
#include "ffmpeg/byte_io.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"

namespace spdl {
namespace {

// Returns how long a frame is shown.
std::int64_t step_of(const AVPacket& packet, const AVStream& stream) {
    if (packet.duration > 0) {
        return packet.duration;
    }
    const AVRational rate = stream.avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? av_rescale_q(1, av_inv_q(rate), stream.time_base) : 1;
}

// The most that is looked at to know what begins at a place.
constexpr std::size_t kLook = 32;

// RFC 9639, sections 7 and 8: a word, and a block of one size that is the first one, and may be the last.
bool is_flac_header(Bytes bytes) {
    return begins(bytes, "fLaC") && bytes.size() >= 8 && (bytes[4] & 0x7F) == 0 && bytes[5] == 0 && bytes[6] == 0 &&
           bytes[7] == 34;
}

// Returns the place of a word after the first byte; the size of all if it is not there.
std::size_t next_of(Bytes bytes, std::string_view word) {
    for (std::size_t at = 1; at < bytes.size(); ++at) {
        // The bytes of sound are looked through by the C library, which is many times as fast as a loop over them.
        const void* first = std::memchr(bytes.data() + at, word.front(), bytes.size() - at);
        if (first == nullptr) {
            break;
        }
        at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(first) - bytes.data());
        if (begins(bytes.subspan(at), word)) {
            return at;
        }
    }
    return bytes.size();
}

// Returns the place after the first byte at which a header of FLAC, or a tag, may begin; the size of all if it is not
// there.
std::size_t next_word(Bytes bytes) {
    const std::size_t tag = next_of(bytes, "ID3");
    return std::min(tag, next_of(bytes.first(tag), "fLaC"));
}

class FramesOfJoined final : public ByteSource {
  public:
    explicit FramesOfJoined(std::unique_ptr<ByteSource> source) : source_(std::move(source)), size_(source_->size()) {}

    // The bytes to leave out are known only when they have been read. Then the end comes earlier.
    [[nodiscard]] std::int64_t size() override { return size_; }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        std::size_t done = 0;
        // Available bytes are handed over at once: a source may have to wait for more.
        while (done < size && (done == 0 || held() > kLook)) {
            if (open_ == 0) {
                look();
            }
            if (!fill(1)) {
                break;
            }
            const auto count = static_cast<std::size_t>(
                std::min({open_, static_cast<std::int64_t>(held()), static_cast<std::int64_t>(size - done)}));
            std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(used_), count, into + done);
            used_ += count;
            done += count;
            position_ += static_cast<std::int64_t>(count);
            open_ -= static_cast<std::int64_t>(count);
        }
        return done;
    }

    void seek(std::int64_t position) override {
        place_ = std::min(position + left_out_before(position), size_);
        source_->seek(place_);
        position_ = position;
        piece_.clear();
        used_ = 0;
        open_ = 0;
        in_frames_ = false;
        ended_ = false;
    }

  private:
    enum class Kind { kUnknown, kMpeg, kFlac, kOther };

    static constexpr std::int64_t kAll = INT64_MAX;
    static constexpr std::size_t kPiece = 1 << 15;
    static constexpr std::int64_t kMostHeld = 1 << 24;

    [[nodiscard]] std::size_t held() const { return piece_.size() - used_; }
    [[nodiscard]] Bytes ahead() const { return Bytes(piece_).subspan(used_); }

    [[nodiscard]] std::int64_t left_out_before(std::int64_t position) const {
        const auto behind = left_out_.lower_bound(position);
        return behind == left_out_.begin() ? 0 : std::prev(behind)->second;
    }

    // Reads on until that many bytes are at hand. Returns whether they are.
    bool fill(std::size_t size) {
        // Only so much is moved as was used, however often little more is asked for.
        if (held() < size && used_ >= held()) {
            piece_.erase(piece_.begin(), piece_.begin() + static_cast<std::ptrdiff_t>(used_));
            used_ = 0;
        }
        while (held() < size && !ended_) {
            const std::size_t before = piece_.size();
            piece_.resize(before + kPiece);
            const std::size_t count = source_->read(piece_.data() + before, kPiece);
            piece_.resize(before + count);
            place_ += static_cast<std::int64_t>(count);
            ended_ = count == 0;
        }
        return held() >= size;
    }

    // Returns what stands that many bytes ahead: less than is looked at, or nothing, at the end. Returns no value after
    // the end, nor where too much would have to be held, since the source cannot go back.
    std::optional<Bytes> far(std::int64_t offset) {
        if (size_ == kUnknown && offset <= kMostHeld) {
            fill(static_cast<std::size_t>(offset) + kLook);
        }
        const auto at_hand = static_cast<std::int64_t>(held());
        if (offset + static_cast<std::int64_t>(kLook) <= at_hand || (ended_ && offset <= at_hand)) {
            const Bytes rest = ahead().subspan(static_cast<std::size_t>(offset));
            return rest.first(std::min(rest.size(), kLook));
        }
        const std::int64_t place = place_ - at_hand + offset;
        if (size_ == kUnknown || place > size_) {
            return std::nullopt;
        }
        source_->seek(place);
        std::size_t done = 0;
        for (std::size_t count = 1; done < kLook && count > 0; done += count) {
            count = source_->read(far_.data() + done, kLook - done);
        }
        source_->seek(place_);
        return Bytes(far_).first(done);
    }

    // Passes by bytes. Returns how many there were.
    std::int64_t skip(std::int64_t size) {
        std::int64_t rest = size;
        while (rest > 0 && fill(1)) {
            const std::int64_t count = std::min(rest, static_cast<std::int64_t>(held()));
            used_ += static_cast<std::size_t>(count);
            rest -= count;
        }
        fill(kLook);
        return size - rest;
    }

    // Returns whether a frame begins here, and another one like it after it.
    bool is_frame_before_frame() {
        const std::size_t frame = mpeg_audio_bytes(ahead());
        if (frame == 0 || !fill(frame + kLook)) {
            return false;
        }
        const Bytes next = ahead().subspan(frame);
        return (next[1] & 0xFE) == (ahead()[1] & 0xFE) && mpeg_audio_bytes(next) > 0;
    }

    // Finds out what begins here, and how far that goes, and leaves out what is not a sound.
    void look() {
        fill(kLook);
        if (position_ == 0) {
            front_ = 0;
            kind_ = Kind::kUnknown;
            in_header_ = false;
        }
        if (position_ == front_ && (kind_ == Kind::kUnknown || in_header_)) {
            find_front();
        }
        if (position_ < front_) {
            open_ = front_ - position_;
        } else if (kind_ == Kind::kMpeg) {
            look_for_tags();
        } else if (kind_ == Kind::kFlac && !in_header_) {
            look_for_headers();
        } else {
            open_ = kAll;
        }
    }

    // Finds the end of the tag, or of the block of a header, that is the next one in front, and at last which kind of
    // file it is.
    void find_front() {
        constexpr std::int64_t kHead = 4;
        if (in_header_) {
            BoxReader block(ahead());
            in_header_ = (block.take(1) & 0x80) == 0;
            front_ += kHead + static_cast<std::int64_t>(block.take(3));
        } else if (is_flac_header(ahead())) {
            kind_ = Kind::kFlac;
            in_header_ = true;
            front_ += kHead;
        } else if (const std::int64_t tag = id3v2_bytes(ahead()); tag > 0) {
            front_ += tag;
        } else {
            kind_ = mpeg_audio_bytes(ahead()) > 0 ? Kind::kMpeg : Kind::kOther;
        }
    }

    void look_for_tags() {
        pass([this] { return in_frames_ ? inner_tag_bytes() : 0; });
        const std::size_t frame = in_frames_ || is_frame_before_frame() ? mpeg_audio_bytes(ahead()) : 0;
        in_frames_ = frame > 0;
        open_ = std::max<std::int64_t>(static_cast<std::int64_t>(frame), 1);
    }

    // Returns whether a tag or a header ends that many bytes ahead: there is sound, a tag, or the end of the file.
    // Everything else is damage, and may be followed by sound.
    template <typename IsSound>
    bool ends_after(std::int64_t size, IsSound is_sound) {
        const std::optional<Bytes> behind = far(size);
        return behind && (behind->empty() || is_sound(*behind) || tag_bytes(*behind) > 0);
    }

    // Returns how long the tag is that begins here; 0 if none exists.
    std::int64_t inner_tag_bytes() {
        const std::int64_t tag = tag_bytes(ahead());
        return tag > 0 && ends_after(tag, [](Bytes bytes) { return mpeg_audio_bytes(bytes) > 0; }) ? tag : 0;
    }

    // Frames of FLAC do not say how long they are, so that headers are looked for in all of it.
    void look_for_headers() {
        constexpr std::size_t kWord = 4;
        pass([this] { return inner_header_bytes(); });
        const std::size_t safe = ended_ ? held() : std::max(held(), kWord) - kWord;
        open_ = std::max<std::int64_t>(static_cast<std::int64_t>(std::min(next_word(ahead()), safe)), 1);
    }

    // Returns how long the header of FLAC is that begins here, or the tag in front of one or at the end; 0 if none
    // exists.
    std::int64_t inner_header_bytes() {
        if (position_ == front_) {
            return 0;
        }
        if (is_flac_header(ahead())) {
            return flac_header_bytes();
        }
        const std::int64_t tag = id3v2_bytes(ahead());
        return tag > 0 && ends_after(tag, is_flac_header) ? tag : 0;
    }

    // The blocks of the header say how long they are, and which is the last.
    std::int64_t flac_header_bytes() {
        constexpr std::int64_t kHead = 4;
        constexpr int kMostBlocks = 128;
        std::int64_t size = kHead;
        bool last = false;
        for (int i = 0; !last && i < kMostBlocks; ++i) {
            const std::optional<Bytes> head = far(size);
            if (!head || head->size() < kHead) {
                return 0;
            }
            BoxReader block(*head);
            last = (block.take(1) & 0x80) != 0;
            size += kHead + static_cast<std::int64_t>(block.take(3));
        }
        const auto is_sound = [](Bytes bytes) { return flac_samples(bytes) > 0 || is_flac_header(bytes); };
        return last && ends_after(size, is_sound) ? size : 0;
    }

    // Leaves out what follows as long as `find` says how long it is. Tags are looked for at the end of a frame: a part
    // of one may look like a tag.
    template <typename Find>
    void pass(Find find) {
        if (const auto known = left_out_.find(position_); known != left_out_.end()) {
            skip(known->second - left_out_before(position_));
            return;
        }
        std::int64_t passed = 0;
        for (std::int64_t size = 0; (size = find()) > 0;) {
            passed += skip(size);
        }
        if (passed > 0) {
            left_out_[position_] = left_out_before(position_) + passed;
        }
    }

    std::unique_ptr<ByteSource> source_;
    std::int64_t size_;
    std::int64_t place_ = 0;           // The place of the source.
    std::vector<std::uint8_t> piece_;  // Read ahead.
    std::array<std::uint8_t, kLook> far_{};
    std::size_t used_ = 0;  // How much of it was handed over.
    std::int64_t position_ = 0;
    std::int64_t open_ = 0;   // How many bytes follow that need not be looked at.
    std::int64_t front_ = 0;  // Where what is after the tags in front begins.
    Kind kind_ = Kind::kUnknown;
    bool in_header_ = false;                         // Whether that is within the header of FLAC.
    bool ended_ = false;                             // Whether the source has no more.
    bool in_frames_ = false;                         // Whether a whole frame came last.
    std::map<std::int64_t, std::int64_t> left_out_;  // How many bytes are left out up to and with a position.
};

// The targets of a segment index: the starts of fragments, and the display times of their first frames.
struct Segments {
    std::uint64_t track = 0;
    std::int64_t unit = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
};

Segments read_segments(Bytes content, std::int64_t end) {
    BoxReader box(content);
    const std::size_t bytes = box.take(1) == 0 ? 4 : 8;
    box.skip(3);
    Segments found;
    found.track = box.take(4);
    found.unit = static_cast<std::int64_t>(box.take(4));
    auto time = static_cast<std::int64_t>(box.take(bytes));
    auto place = static_cast<std::int64_t>(box.take(bytes));
    if (std::min(time, place) < 0 || std::max(time, place) > kMaxTime) {
        return found;
    }
    place += end;
    box.skip(2);
    for (std::uint64_t left = box.take(2); left > 0 && !box.rest().empty(); --left) {
        found.parts.emplace_back(place, time);
        place += static_cast<std::int64_t>(box.take(4));
        time += static_cast<std::int64_t>(box.take(4));
        box.skip(4);
    }
    return found;
}

// Returns when the first packet of a track in a fragment is decoded; nothing if the fragment does not say, or has none.
std::optional<std::int64_t> first_decoded(Bytes fragment, std::uint64_t track) {
    while (const auto box = take_box(fragment)) {
        if (box->name != "traf") {
            continue;
        }
        BoxReader header(find_box(box->content, "tfhd"));
        header.skip(4);
        BoxReader time(find_box(box->content, "tfdt"));
        if (header.take(4) == track && !time.rest().empty()) {
            const std::size_t bytes = time.take(1) == 0 ? 4 : 8;
            time.skip(3);
            const auto decoded = static_cast<std::int64_t>(time.take(bytes));
            return decoded >= 0 && decoded <= kMaxTime ? std::optional(decoded) : std::nullopt;
        }
    }
    return std::nullopt;
}

// The starts of fragments, and when they are decoded.
using Fragments = std::map<std::int64_t, std::optional<std::int64_t>>;

// Returns whether each part is shown when its fragment is decoded, or later, but before the next one is decoded.
bool agrees(const Segments& segments, const Fragments& fragments, const Mp4Track& track) {
    const std::int64_t shift = track.edits.empty() ? 0 : track.edits.front();
    const AVRational shown_unit{1, static_cast<int>(segments.unit)};
    const AVRational decoded_unit{1, static_cast<int>(track.unit)};
    for (std::size_t part = 0; part < segments.parts.size(); ++part) {
        const auto [place, time] = segments.parts[part];
        const auto fragment = fragments.lower_bound(place);
        const bool within = fragment != fragments.end() &&
                            (part + 1 == segments.parts.size() || fragment->first < segments.parts[part + 1].first);
        if (!within || !fragment->second) {
            return false;
        }
        const std::int64_t decoded = *fragment->second - shift;
        const bool early =
            part > 0 && av_compare_ts(segments.parts[part - 1].second, shown_unit, decoded, decoded_unit) > 0;
        if (early || av_compare_ts(decoded, decoded_unit, time, shown_unit) > 0) {
            return false;
        }
    }
    return !segments.parts.empty();
}

struct FreeOutput {
    void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
};

using Contents = std::vector<std::uint8_t>;

class MemorySink final : public ByteSink {
  public:
    [[nodiscard]] bool can_seek() const override { return true; }

    void write(Bytes bytes) override {
        contents_.resize(std::max(contents_.size(), position_ + bytes.size()));
        std::ranges::copy(bytes, contents_.begin() + static_cast<std::ptrdiff_t>(position_));
        position_ += bytes.size();
    }

    void seek(std::int64_t position) override { position_ = static_cast<std::size_t>(position); }

    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override {
        const Bytes rest = Bytes(contents_).subspan(std::min(static_cast<std::size_t>(position), contents_.size()));
        const Bytes part = rest.first(std::min(size, rest.size()));
        std::ranges::copy(part, into);
        return part.size();
    }

    [[nodiscard]] Contents take() { return std::move(contents_); }

  private:
    Contents contents_;
    std::size_t position_ = 0;
};

// Returns a size whose rows end like rows of the given size: they may be filled up to a multiple of some bytes.
int small_side(int side) {
    constexpr int kRows = 16;
    return kRows + side % kRows;
}

// Returns the bytes of a small picture without two equal parts.
Contents make_picture(const AVCodecParameters& stream) {
    const int size = av_image_get_buffer_size(static_cast<AVPixelFormat>(stream.format), small_side(stream.width),
                                              small_side(stream.height), 1);
    Contents picture(static_cast<std::size_t>(std::max(size, 0)));
    std::uint32_t state = 1;
    for (std::uint8_t& byte : picture) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::uint8_t>(state >> 24U);
    }
    if (stream.format == AV_PIX_FMT_PAL8) {
        // Colours of a palette, after the pixels, are written without their alpha.
        constexpr std::size_t kColor = 4;
        constexpr std::size_t kPalette = 256 * kColor;
        for (std::size_t end = picture.size() - kPalette + kColor; end <= picture.size(); end += kColor) {
            picture[end - 1] = 0xFF;
        }
    }
    return picture;
}

// Returns a file of one picture, with the zeros after it that libavformat's probes read; nothing if none exists, which
// is for Muxer::open to say.
Contents write_picture(const AVOutputFormat& format, const AVStream& like, const Contents& picture) {
    AVFormatContext* made = nullptr;
    require_memory(avformat_alloc_output_context2(&made, &format, nullptr, nullptr) >= 0);
    const std::unique_ptr<AVFormatContext, FreeOutput> context(made);
    AVStream* const stream = avformat_new_stream(made, nullptr);
    require_memory(stream != nullptr && avcodec_parameters_copy(stream->codecpar, like.codecpar) >= 0);
    MemorySink sink;
    Output output(sink);
    made->pb = output.context();
    stream->codecpar->width = small_side(like.codecpar->width);
    stream->codecpar->height = small_side(like.codecpar->height);
    stream->time_base = {1, 25};
    stream->avg_frame_rate = {25, 1};
    const PacketPtr packet = make_packet();
    require_memory(av_new_packet(packet.get(), static_cast<int>(picture.size())) >= 0);
    std::ranges::copy(picture, packet->data);
    packet->pts = packet->dts = 0;
    packet->duration = 1;
    packet->flags = AV_PKT_FLAG_KEY;
    const FfmpegLog log;
    if (avformat_write_header(made, nullptr) < 0) {
        return {};
    }
    av_packet_rescale_ts(packet.get(), {1, 25}, stream->time_base);
    if (av_write_frame(made, packet.get()) < 0 || av_write_trailer(made) < 0) {
        return {};
    }
    avio_flush(made->pb);
    Contents file = sink.take();
    file.resize(file.size() + AVPROBE_PADDING_SIZE);
    return file;
}

// Returns whether the contents of a file tell that it is one of that format. Pictures without a header do not.
bool is_told(const AVOutputFormat& format, Contents& file) {
    const AVProbeData probe{"", file.data(), static_cast<int>(file.size()) - AVPROBE_PADDING_SIZE, nullptr};
    const AVInputFormat* const found = av_probe_input_format(&probe, 1);
    return found != nullptr && av_match_name(format.name, found->name) != 0;
}

std::string_view name_of(int format) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
    return name == nullptr ? "nothing that is known" : name;
}

// Returns whether pictures have the same bytes; there are names for each range of colours.
bool alike(std::string_view a, std::string_view b) {
    constexpr std::string_view kFullRange = "yuvj";
    const auto plain = [&](std::string_view name) {
        return name.substr(0, kFullRange.size()) == kFullRange ? "yuv" + std::string(name.substr(kFullRange.size()))
                                                               : std::string(name);
    };
    return plain(a) == plain(b);
}

// Returns the bytes of the first picture, and the name of its pixel format.
std::pair<Contents, std::string_view> read_picture(Bytes file) {
    Container container(std::make_unique<MemorySource>(file), {});
    const std::shared_ptr<const Stream> stream = container.begin(0, {});
    StreamDecoder decoder(stream, {});
    while (const PacketPtr packet = container.read()) {
        decoder.add(packet.get());
        if (const FramePtr frame = decoder.get()) {
            const auto format = static_cast<AVPixelFormat>(frame->format);
            const int size = av_image_get_buffer_size(format, frame->width, frame->height, 1);
            Contents picture(static_cast<std::size_t>(std::max(size, 0)));
            av_image_copy_to_buffer(picture.data(), size, frame->data, frame->linesize, format, frame->width,
                                    frame->height, 1);
            return {std::move(picture), name_of(format)};
        }
    }
    throw MediaError("there is no picture in it");
}

// Returns what is wrong with what is read; "" if nothing is.
std::string compare(std::string_view format, const Contents& picture, Bytes file) {
    try {
        const auto [found, name] = read_picture(file);
        if (!alike(format, name)) {
            return "would be read as " + std::string(name);
        }
        return found == picture ? "" : "would be read with other pixels at this width";
    } catch (const MediaError& error) {
        return std::string("cannot be read again (") + error.what() + ")";
    }
}

}  // namespace

// Decoding never goes back in time, and a key frame is shown after all that is decoded before it; whether decoding can
// begin with a packet, only some demuxers look up in it. Times that they make up for packets may go back a little.
bool JoinedTimes::begins_anew(const AVPacket& packet, const AVStream& stream) const {
    const bool key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
    const AVRational time_base = stream.time_base;
    if (const std::int64_t period = clock_period(stream); period > 0 && decoded_ != AV_NOPTS_VALUE &&
                                                          packet.dts != AV_NOPTS_VALUE &&
                                                          packet.dts - decoded_ > period / 2) {
        return true;
    }
    if (decoded_ != AV_NOPTS_VALUE && packet.dts != AV_NOPTS_VALUE && packet.dts < decoded_) {
        constexpr AVRational kLittle{1, 10};
        const bool far = av_compare_ts(decoded_ - packet.dts, time_base, kLittle.num, {1, kLittle.den}) > 0;
        return key || (looks_up_ && far);
    }
    const std::int64_t before = looks_up_ ? std::max(shown_, decoded_) : decoded_;
    return key && packet.pts != AV_NOPTS_VALUE && packet.pts < before;
}

void JoinedTimes::follow(AVPacket& packet, const AVStream& stream) {
    const std::int64_t step = step_of(packet, stream);
    // The first frame is shown that long after its packet is decoded.
    const std::int64_t delay = stream.codecpar->video_delay * step;
    if (begins_anew(packet, stream)) {
        // Further from it are only those that others precede, as in the middle of a recording.
        const bool both = packet.pts != AV_NOPTS_VALUE && packet.dts != AV_NOPTS_VALUE;
        if (both) {
            packet.dts = std::min(packet.dts, packet.pts);  // Demuxers may have made it up from those before.
        }
        const std::int64_t most = looks_up_ ? delay : kMaxTime;
        const std::int64_t ahead = both ? std::clamp<std::int64_t>(packet.pts - packet.dts, 0, most) : 0;
        moved_ = end_ - ahead - (packet.dts != AV_NOPTS_VALUE ? packet.dts : packet.pts);
        shown_ = AV_NOPTS_VALUE;
        joined_ = true;
    }
    decoded_ = packet.dts != AV_NOPTS_VALUE ? packet.dts : decoded_;
    shown_ = packet.pts != AV_NOPTS_VALUE ? std::max(packet.pts, shown_) : shown_;
    packet.pts += packet.pts != AV_NOPTS_VALUE ? moved_ : 0;
    packet.dts += packet.dts != AV_NOPTS_VALUE ? moved_ : 0;
    if (packet.pts != AV_NOPTS_VALUE) {
        end_ = std::max(end_, packet.pts + step);
    }
    // A frame that does not say when it is shown, or says it for the one after it, is shown when the next one is
    // decoded that is not shown at once.
    waits_ = packet.pts == AV_NOPTS_VALUE || packet.pts == before_ || (waits_ && packet.pts == packet.dts);
    before_ = packet.pts;
    if (waits_ && packet.dts != AV_NOPTS_VALUE) {
        end_ = std::max(end_, packet.dts + step + delay);
    }
}

std::unique_ptr<ByteSource> frames_of_joined(std::unique_ptr<ByteSource> source) {
    return std::make_unique<FramesOfJoined>(std::move(source));
}

bool has_wrong_segment_index(AVIOContext& input, std::int64_t size, int track) {
    Peek file(input, size);
    const auto id = static_cast<std::uint64_t>(track);
    std::vector<Segments> all;
    Fragments fragments;
    find_box_where(file, [&](const PlacedBox& box) {
        if (box.is("sidx")) {
            all.push_back(read_segments(read_box(file, box), box.end));
        } else if (box.is("moof") && !all.empty()) {
            fragments[box.place] = first_decoded(read_box(file, box), id);
        }
        return false;
    });
    if (all.empty()) {
        return false;
    }
    const std::vector<Mp4Track> tracks = read_tracks(file);
    const auto found = std::ranges::find(tracks, id, &Mp4Track::id);
    constexpr std::int64_t kMostUnits = INT32_MAX;
    if (found == tracks.end() || found->unit <= 0 || found->unit > kMostUnits ||
        std::ranges::find(found->edits, -1) != found->edits.end()) {
        return true;
    }
    const bool own = std::ranges::find(all, id, &Segments::track) != all.end();
    return std::ranges::any_of(all, [&](const Segments& segments) {
        return (!own || segments.track == id) &&
               (segments.unit <= 0 || segments.unit > kMostUnits || !agrees(segments, fragments, *found));
    });
}

void check_raw_pictures(const AVOutputFormat& format, const AVStream& stream) {
    if (stream.codecpar->codec_id != AV_CODEC_ID_RAWVIDEO) {
        return;
    }
    const Contents picture = make_picture(*stream.codecpar);
    Contents file = picture.empty() ? Contents() : write_picture(format, stream, picture);
    if (file.empty() || !is_told(format, file)) {
        return;
    }
    const std::string_view given = name_of(stream.codecpar->format);
    const std::string wrong = compare(given, picture, Bytes(file).first(file.size() - AVPROBE_PADDING_SIZE));
    if (!wrong.empty()) {
        throw MediaError("a file in the format \"" + std::string(format.name) + "\" cannot hold raw pictures of " +
                         std::string(given) + ": what FFmpeg writes " + wrong +
                         ". Choose the format \"nut\", another pix_fmt, or an encoder that loses nothing, such as "
                         "\"ffv1\"");
    }
}

}  // namespace spdl
