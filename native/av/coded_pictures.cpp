#include "av/coded_pictures.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>

#include "core/errors.h"
#include "core/geometry.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"
#include "media/decoder.h"

namespace spdl {
namespace {

// Returns how many bytes the length of a unit takes; 0 for start codes.
std::size_t bytes_of_lengths(const AVCodecParameters& video) {
    const std::uint8_t* const extra = video.extradata;
    const int size = extra != nullptr && extra[0] == 1 ? video.extradata_size : 0;
    constexpr int kInH264 = 4;
    constexpr int kInHevc = 21;
    const int place = video.codec_id == AV_CODEC_ID_HEVC ? kInHevc : kInH264;
    return size > place ? (extra[place] & 3U) + 1U : 0;
}

}  // namespace

void visit_units(Bytes packet, const AVCodecParameters& video, const std::function<bool(Bytes)>& look) {
    const std::size_t size_bytes = bytes_of_lengths(video);
    for (std::size_t at = 0; at < packet.size();) {
        std::size_t begin = at;
        std::size_t next = packet.size();
        if (size_bytes > 0) {
            if (packet.size() - at < size_bytes) {
                return;
            }
            std::size_t length = 0;
            for (std::size_t i = 0; i < size_bytes; ++i) {
                length = length << 8U | packet[at + i];
            }
            begin = at + size_bytes;
            next = length < packet.size() - begin ? begin + length : packet.size();
        } else {
            while (begin + 3 <= packet.size() &&
                   !(packet[begin] == 0 && packet[begin + 1] == 0 && packet[begin + 2] == 1)) {
                ++begin;
            }
            begin += 3;
            if (begin >= packet.size()) {
                return;
            }
            next = begin;
        }
        if (look(packet.subspan(begin))) {
            return;
        }
        at = next;
    }
}

bool has_picture(const AVPacket& packet, const AVCodecParameters& video) {
    // ITU-T H.265, table 7-1.
    constexpr int kFirstOfOthers = 32;
    bool found = false;
    const Bytes bytes(packet.data, packet.data == nullptr ? 0 : static_cast<std::size_t>(packet.size));
    visit_units(bytes, video, [&](Bytes unit) {
        found = !unit.empty() && (unit[0] >> 1 & 0x3F) < kFirstOfOthers;
        return found;
    });
    return found;
}

namespace {

constexpr unsigned kIntra = 0;

// ITU-T H.263, 5.1.
bool is_intra_h263(BitReader bits) {
    constexpr std::size_t kBeforeFormat = 22 + 8 + 5;  // The start code, the time, and flags.
    constexpr unsigned kExtended = 7;
    bits.skip(kBeforeFormat);
    if (bits.take(3) != kExtended) {
        return bits.take(1) == kIntra;
    }
    constexpr unsigned kFullUpdate = 1;
    constexpr std::size_t kFullSize = 18;
    if (bits.take(3) == kFullUpdate) {
        bits.skip(kFullSize);
    }
    return bits.take(3) == kIntra;
}

// Sorenson's variant, which Flash video has: the specification of FLV, annex E.
bool is_intra_sorenson(BitReader bits) {
    bits.skip(17 + 5 + 8);  // The start code, the version and the time.
    const unsigned format = bits.take(3);
    bits.skip(format == 0 ? 16 : format == 1 ? 32 : 0);
    return bits.take(2) == kIntra;
}

// Returns what follows the first of such start codes in a packet; nothing if none exists.
Bytes behind_code(Bytes packet, std::uint8_t code) {
    const std::array<std::uint8_t, 4> wanted{0, 0, 1, code};
    return {std::ranges::search(packet, wanted).end(), packet.end()};
}

// ISO/IEC 14496-2, 6.2.5: two bits after the start code say which kind a picture is.
constexpr std::uint8_t kMpeg4Picture = 0xb6;

std::optional<bool> is_intra_mpeg4(Bytes packet) {
    const Bytes picture = behind_code(packet, kMpeg4Picture);
    return picture.empty() ? std::nullopt : std::optional(picture[0] >> 6 == kIntra);
}

// ISO/IEC 13818-2, 6.2.3.
std::optional<bool> is_intra_mpeg2(Bytes packet) {
    constexpr std::uint8_t kPicture = 0;
    constexpr unsigned kIntraPicture = 1;
    const Bytes picture = behind_code(packet, kPicture);
    if (picture.empty()) {
        return std::nullopt;
    }
    BitReader bits(picture);
    bits.skip(10);  // The picture's number.
    return bits.take(3) == kIntraPicture;
}

// Returns whether the picture in a packet can be decoded without others, as its header says. Nothing for codecs whose
// headers are not known here: the container or FFmpeg's parsers tell.
//
// FFmpeg has no parser for these codecs, or one that does not look at it and takes all pictures for key frames.
std::optional<bool> needs_no_others(AVCodecID codec, Bytes packet) {
    BitReader bits(packet);
    switch (codec) {
        case AV_CODEC_ID_H261:
            // It has no such pictures: each block says for itself whether it builds on others.
            return false;
        case AV_CODEC_ID_H263:
        case AV_CODEC_ID_H263P:
            return is_intra_h263(bits);
        case AV_CODEC_ID_FLV1:
            return is_intra_sorenson(bits);
        case AV_CODEC_ID_MPEG1VIDEO:
        case AV_CODEC_ID_MPEG2VIDEO:
            return is_intra_mpeg2(packet);
        case AV_CODEC_ID_MPEG4:
            return is_intra_mpeg4(packet);
        case AV_CODEC_ID_MSMPEG4V1:
            bits.skip(32 + 5);  // The start code and the time.
            return bits.take(2) == kIntra;
        case AV_CODEC_ID_MSMPEG4V2:
        case AV_CODEC_ID_MSMPEG4V3:
        case AV_CODEC_ID_WMV1:
            return bits.take(2) == kIntra;
        case AV_CODEC_ID_WMV2:
            return bits.take(1) == kIntra;
        default:
            return std::nullopt;
    }
}

}  // namespace

bool holds_reordered_picture(AVCodecID codec, Bytes packet) {
    if (codec != AV_CODEC_ID_MPEG4) {
        return false;
    }
    constexpr int kBidirectional = 2;
    for (;;) {
        packet = behind_code(packet, kMpeg4Picture);
        if (packet.empty()) {
            return false;
        }
        if (packet[0] >> 6 == kBidirectional) {
            return true;
        }
    }
}

namespace {

bool has_numbers(AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC;
}

bool may_reorder(const AVCodecParameters& video) {
    const AVCodecDescriptor* const described = avcodec_descriptor_get(video.codec_id);
    return described != nullptr && (described->props & AV_CODEC_PROP_REORDER) != 0 &&
           !(video.codec_id == AV_CODEC_ID_H264 && H264FrameNumbers(video).shows_in_order());
}

// Returns whether the numbers of pictures begin again with a packet: ITU-T H.264, table 7-1, and H.265, table 7-1.
bool begins_sequence(const AVPacket& packet, const AVCodecParameters& video) {
    const bool hevc = video.codec_id == AV_CODEC_ID_HEVC;
    const int first = hevc ? 16 : 5;
    const int last = hevc ? 20 : 5;
    const int others = hevc ? 32 : 6;
    bool found = false;
    visit_units({packet.data, static_cast<std::size_t>(packet.size)}, video, [&](Bytes unit) {
        const int type = unit.empty() ? others : hevc ? unit[0] >> 1 & 0x3F : unit[0] & 0x1F;
        found = type >= first && type <= last;
        return type > 0 && type < others;
    });
    return found;
}

}  // namespace

PictureOrder::PictureOrder(const Stream& stream)
    : parameters_(copy_parameters(*stream.parameters)), numbered_(has_numbers(stream.parameters->codec_id)) {
    if (!spdl::may_reorder(*parameters_)) {
        return;
    }
    context_.reset(avcodec_alloc_context3(nullptr));
    require_memory(context_ && avcodec_parameters_to_context(context_.get(), stream.parameters.get()) >= 0);
    // Decoders report what is wrong with the pictures.
    constexpr int kSilent = 100;
    context_->log_level_offset = kSilent;
    parser_.reset(av_parser_init(static_cast<int>(stream.parameters->codec_id)));
    if (parser_) {
        parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    }
}

bool PictureOrder::add(const AVPacket& packet) {
    if (!parser_ || packet.data == nullptr || packet.size == 0) {
        const auto position = static_cast<std::int64_t>(places_.size());
        places_.push_back({sequence_, !numbered_ ? 2 * position : places_.empty() ? 0 : places_.back().number});
        return true;
    }
    std::uint8_t* parsed = nullptr;
    int size = 0;
    av_parser_parse2(parser_.get(), context_.get(), &parsed, &size, packet.data, packet.size, packet.pts, packet.dts,
                     packet.pos);
    if (numbered_) {
        add_numbered(packet);
        return true;
    }
    return add_waiting(packet, parser_->pict_type == AV_PICTURE_TYPE_B);
}

void PictureOrder::add_numbered(const AVPacket& packet) {
    if (!places_.empty() && begins_sequence(packet, *parameters_)) {
        ++sequence_;
    }
    const Place place{sequence_, parser_->output_picture_number};
    reordered_ = reordered_ ||
                 (!places_.empty() && places_.back().sequence == sequence_ && place.number < places_.back().number);
    places_.push_back(place);
}

// A picture that waits is shown before the next one that waits.
bool PictureOrder::add_waiting(const AVPacket& packet, bool at_once) {
    // Such a packet only stands for a picture that was in the one before with another that waits.
    constexpr int kMostOfNothing = 19;
    const bool stands = packed_ && packet.size <= kMostOfNothing;
    const auto position = static_cast<std::int64_t>(places_.size());
    if (at_once || stands) {
        reordered_ = reordered_ || has_waiting_;
    } else {
        if (has_waiting_) {
            places_[waits_].number = 2 * position - 1;
        }
        waits_ = places_.size();
        has_waiting_ = true;
    }
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    packed_ = !stands && (at_once ? packed_ : holds_reordered_picture(parameters_->codec_id, bytes));
    places_.push_back({sequence_, at_once || stands ? 2 * position : std::numeric_limits<std::int64_t>::max()});
    return !stands;
}

std::vector<std::size_t> PictureOrder::shown() const {
    std::vector<std::size_t> positions(places_.size());
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    std::ranges::stable_sort(positions, {},
                             [&](std::size_t at) { return std::tuple(places_[at].sequence, places_[at].number); });
    return positions;
}

namespace {

// ITU-T H.264, table 7-1.
constexpr int kSlice = 1;
constexpr int kPartition = 2;
constexpr int kInstantRefresh = 5;
constexpr int kSequence = 7;
constexpr int kPicture = 8;

// Returns the beginning of a unit without its first byte and the bytes that only keep start codes apart.
std::vector<std::uint8_t> payload(Bytes unit) {
    constexpr std::size_t kMost = 1024;
    std::vector<std::uint8_t> bytes;
    int zeros = 0;
    for (const std::uint8_t byte : unit.subspan(1, std::min(unit.size() - 1, kMost))) {
        if (zeros >= 2 && byte == 3) {
            zeros = 0;
            continue;
        }
        zeros = byte == 0 ? zeros + 1 : 0;
        bytes.push_back(byte);
    }
    return bytes;
}

int type_of(Bytes unit) {
    return unit[0] & 0x1f;
}

void skip_scaling_list(BitReader& bits, int size) {
    int last = 8;
    int next = 8;
    for (int i = 0; i < size && next != 0; ++i) {
        const unsigned code = bits.exp_golomb().value_or(0);
        const int delta = static_cast<int>((code + 1) / 2) * (code % 2 == 1 ? 1 : -1);
        next = (last + delta + 256) % 256;
        last = next == 0 ? last : next;
    }
}

// Reads what only the higher profiles have, and returns whether the planes of a picture are coded one by one.
bool read_high_profile(BitReader& bits) {
    const unsigned chroma = bits.exp_golomb().value_or(0);
    const bool separate = chroma == 3 && bits.take(1) != 0;
    bits.exp_golomb();  // The depth of luma,
    bits.exp_golomb();  // and that of chroma.
    bits.skip(1);
    if (bits.take(1) != 0) {
        constexpr int kSmall = 6;
        const int lists = chroma == 3 ? 12 : 8;
        for (int i = 0; i < lists; ++i) {
            if (bits.take(1) != 0) {
                skip_scaling_list(bits, i < kSmall ? 16 : 64);
            }
        }
    }
    return separate;
}

bool is_high(unsigned profile) {
    constexpr std::array kHigh{100U, 110U, 122U, 244U, 44U, 83U, 86U, 118U, 128U, 138U, 139U, 134U, 135U};
    return std::ranges::find(kHigh, profile) != kHigh.end();
}

// Reads how pictures are ordered, and returns whether that is the order of decoding.
bool read_order(BitReader& bits) {
    constexpr unsigned kAsDecoded = 2;
    const unsigned kind = bits.exp_golomb().value_or(0);
    if (kind == 0) {
        bits.exp_golomb();
    } else if (kind == 1) {
        bits.skip(1);
        bits.exp_golomb();
        bits.exp_golomb();
        const unsigned count = std::min(bits.exp_golomb().value_or(0), 255U);
        for (unsigned i = 0; i < count; ++i) {
            bits.exp_golomb();
        }
    }
    return kind == kAsDecoded;
}

}  // namespace

H264FrameNumbers::H264FrameNumbers(const AVCodecParameters& video) : video_(video) {
    if (video.extradata != nullptr && video.extradata_size > 0) {
        read_parameters({video.extradata, static_cast<std::size_t>(video.extradata_size)});
    }
}

// ISO/IEC 14496-15, 5.3.3.1; or units with start codes.
void H264FrameNumbers::read_parameters(Bytes extra) {
    if (extra[0] != 1) {
        visit_units(extra, video_, [&](Bytes unit) {
            read_unit(unit);
            return false;
        });
        return;
    }
    std::size_t at = 5;
    for (const unsigned mask : {0x1fU, 0xffU}) {
        if (at >= extra.size()) {
            return;
        }
        for (unsigned left = extra[at++] & mask; left > 0 && at + 2 <= extra.size(); --left) {
            const std::size_t size = static_cast<std::size_t>(extra[at]) << 8U | extra[at + 1];
            at += 2;
            if (size > extra.size() - at) {
                return;
            }
            read_unit(extra.subspan(at, size));
            at += size;
        }
    }
}

void H264FrameNumbers::read_unit(Bytes unit) {
    if (unit.size() < 2 || (type_of(unit) != kSequence && type_of(unit) != kPicture)) {
        return;
    }
    const std::vector<std::uint8_t> bytes = payload(unit);
    BitReader bits(bytes);
    if (type_of(unit) == kPicture) {
        const std::optional<unsigned> number = bits.exp_golomb();
        const std::optional<unsigned> sequence = bits.exp_golomb();
        if (number && sequence) {
            pictures_[*number] = *sequence;
        }
        return;
    }
    const unsigned profile = bits.take(8);
    bits.skip(16);  // Constraints, and the level.
    const std::optional<unsigned> number = bits.exp_golomb();
    Sequence sequence;
    sequence.separate_planes = is_high(profile) && read_high_profile(bits);
    constexpr unsigned kMostBits = 16;
    const unsigned number_bits = bits.exp_golomb().value_or(kMostBits) + 4;
    sequence.in_order = read_order(bits);
    bits.exp_golomb();  // How many pictures others may build on.
    sequence.may_have_gaps = number_bits > kMostBits || bits.take(1) != 0;
    sequence.number_bits = static_cast<int>(number_bits);
    if (number) {
        sequences_[*number] = sequence;
    }
}

bool H264FrameNumbers::shows_in_order() const {
    return !sequences_.empty() && std::ranges::all_of(sequences_, [](const auto& it) { return it.second.in_order; });
}

bool H264FrameNumbers::read_slice(Bytes unit) {
    const std::vector<std::uint8_t> bytes = payload(unit.first(std::min<std::size_t>(unit.size(), 32)));
    BitReader bits(bytes);
    bits.exp_golomb();  // The first macroblock,
    bits.exp_golomb();  // and the kind of the slice.
    const auto picture = pictures_.find(bits.exp_golomb().value_or(~0U));
    const auto sequence = picture == pictures_.end() ? sequences_.end() : sequences_.find(picture->second);
    if (sequence == sequences_.end() || sequence->second.may_have_gaps) {
        last_.reset();
        return false;
    }
    bits.skip(sequence->second.separate_planes ? 2 : 0);
    const unsigned number = bits.take(sequence->second.number_bits);
    const unsigned next = last_ ? (*last_ + 1) & ((1U << static_cast<unsigned>(sequence->second.number_bits)) - 1) : 0;
    // A picture may restart the numbers; that field is hard to reach.
    const bool missing = type_of(unit) != kInstantRefresh && last_ && number > 1 && number != *last_ && number != next;
    const bool is_reference = (unit[0] >> 5U & 3U) != 0;
    if (is_reference || missing) {
        last_ = number;
    }
    return missing;
}

bool H264FrameNumbers::misses_one(const AVPacket& packet) {
    std::size_t size = 0;
    if (const std::uint8_t* const extra = av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size);
        extra != nullptr && size > 0) {
        read_parameters({extra, size});
    }
    bool missing = false;
    const Bytes bytes(packet.data, packet.data == nullptr ? 0 : static_cast<std::size_t>(packet.size));
    visit_units(bytes, video_, [&](Bytes unit) {
        const int type = unit.size() < 2 ? 0 : type_of(unit);
        if (type == kPartition) {
            last_.reset();
            return true;
        }
        if (type != kSlice && type != kInstantRefresh) {
            if (type != 0) {
                read_unit(unit);
            }
            return false;
        }
        missing = read_slice(unit);
        return true;
    });
    return missing;
}

namespace {

// ITU-T H.264, table 7-1.

// Returns whether a unit is a slice of a picture that others are needed for; nothing if it is not a slice.
std::optional<bool> needs_others(Bytes unit) {
    if (unit.size() < 2) {
        return std::nullopt;
    }
    const int type = unit[0] & 0x1f;
    if (type == kInstantRefresh) {
        return false;
    }
    if (type != kSlice) {
        return std::nullopt;
    }
    BitReader bits(unit.subspan(1));
    bits.exp_golomb();  // The first macroblock.
    const std::optional<unsigned> kind = bits.exp_golomb();
    // Table 7-6: I and SI, of this slice or of all in the picture.
    constexpr unsigned kKinds = 5;
    return kind && *kind % kKinds != 2 && *kind % kKinds != 4;
}

bool is_refreshed_later(Bytes packet, const AVCodecParameters& video) {
    bool refreshed = false;
    visit_units(packet, video, [&](Bytes unit) {
        const std::optional<bool> found = needs_others(unit);
        refreshed = found.value_or(false);
        return found.has_value();
    });
    return refreshed;
}

// Returns whether a packet of HEVC holds no picture that others are needed for: ITU-T H.265, table 7-1.
bool holds_random_access(Bytes packet, const AVCodecParameters& video) {
    constexpr int kFirst = 16;
    constexpr int kOthers = 32;
    bool found = true;
    visit_units(packet, video, [&](Bytes unit) {
        const int type = unit.empty() ? kOthers : unit[0] >> 1 & 0x3F;
        found = type >= kFirst;
        return type < kOthers;
    });
    return found;
}

}  // namespace

bool containers_need_not_tell_keys(AVCodecID codec) {
    const AVCodecDescriptor* const described = avcodec_descriptor_get(codec);
    if (described != nullptr && (described->props & AV_CODEC_PROP_INTRA_ONLY) != 0) {
        return true;
    }
    if (needs_no_others(codec, {})) {
        return true;
    }
    void* at = nullptr;
    while (const AVCodecParser* const parser = av_parser_iterate(&at)) {
        if (std::ranges::find(parser->codec_ids, static_cast<int>(codec)) != std::end(parser->codec_ids)) {
            return true;
        }
    }
    return false;
}

bool tells_itself(const AVPacket& packet, const Stream& stream) {
    return packet.data != nullptr && stream.parameters->codec_id != AV_CODEC_ID_H261 &&
           needs_no_others(stream.parameters->codec_id, {packet.data, static_cast<std::size_t>(packet.size)});
}

bool is_key(const AVPacket& packet, const Stream& stream) {
    const AVCodecParameters& video = *stream.parameters;
    if (packet.data == nullptr) {
        return (packet.flags & AV_PKT_FLAG_KEY) != 0;
    }
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    if (const std::optional<bool> told = needs_no_others(video.codec_id, bytes)) {
        return *told;
    }
    if ((packet.flags & AV_PKT_FLAG_KEY) == 0 || !stream.tells_keys) {
        return false;
    }
    if (video.codec_id == AV_CODEC_ID_HEVC) {
        return holds_random_access(bytes, video);
    }
    return video.codec_id != AV_CODEC_ID_H264 || !is_refreshed_later(bytes, video);
}

namespace {

constexpr const char* kTried = "cannot decode the HEIF";

PacketPtr joined(std::span<const Bytes> pieces) {
    std::size_t size = 0;
    for (const Bytes piece : pieces) {
        size += piece.size();
    }
    if (size == 0 || size > kMaxEncodedBytes) {
        throw MediaError(std::string(kTried) + ": an item has " + std::to_string(size) + " bytes");
    }
    PacketPtr packet = make_packet();
    require_memory(av_new_packet(packet.get(), static_cast<int>(size)) >= 0);
    std::uint8_t* to = packet->data;
    for (const Bytes piece : pieces) {
        to = std::ranges::copy(piece, to).out;
    }
    return packet;
}

// If slices are missing, memory would show an earlier picture.
int take_clean_buffer(AVCodecContext* context, AVFrame* frame, int flags) {
    const int code = avcodec_default_get_buffer2(context, frame, flags);
    for (std::size_t i = 0; code >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i] != nullptr; ++i) {
        std::memset(frame->buf[i]->data, 0, static_cast<std::size_t>(frame->buf[i]->size));
    }
    return code;
}

// The samples of a decoded picture, whose format is one of planes.
CodedPicture picture_of(const AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (format == nullptr || (format->flags & AV_PIX_FMT_FLAG_HWACCEL) != 0) {
        throw MediaError(std::string(kTried) + ": its samples are of an unknown format");
    }
    const int planes = av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame.format));
    CodedPicture picture;
    picture.layout = {format->comp[0].depth, planes == 1, {format->log2_chroma_w, format->log2_chroma_h}};
    picture.colors = {frame.colorspace, frame.color_primaries, frame.color_range == AVCOL_RANGE_JPEG};
    for (std::size_t plane = 0; plane < static_cast<std::size_t>(std::min(planes, 3)); ++plane) {
        picture.planes[plane] = frame.data[plane];
        picture.row_distances[plane] = frame.linesize[plane];
    }
    return picture;
}

}  // namespace

CodedPicture HevcPictures::decode(Bytes config, std::span<const Bytes> pieces, Size size) {
    const FfmpegLog log;
    if (!context_ || size != size_ || !std::ranges::equal(config, config_)) {
        forget();
        open(config, size);
    }
    const PacketPtr packet = joined(pieces);
    frame_ = make_frame();
    log.check(avcodec_send_packet(context_.get(), packet.get()), kTried);
    int code = avcodec_receive_frame(context_.get(), frame_.get());
    if (code == AVERROR(EAGAIN)) {
        log.check(avcodec_send_packet(context_.get(), nullptr), kTried);
        code = avcodec_receive_frame(context_.get(), frame_.get());
    }
    log.check(code, kTried);
    // The next packets have nothing to do with this picture.
    avcodec_flush_buffers(context_.get());
    if (frame_->width != size.width || frame_->height != size.height) {
        throw MediaError(std::string(kTried) + ": an item is said to have " + std::to_string(size.width) + "x" +
                         std::to_string(size.height) + " pixels, and its picture has " + std::to_string(frame_->width) +
                         "x" + std::to_string(frame_->height));
    }
    forget_unknown_colors(*frame_);
    return picture_of(*frame_);
}

void HevcPictures::open(Bytes config, Size size) {
    const FfmpegLog log;
    const AVCodec* const decoder = avcodec_find_decoder(AV_CODEC_ID_HEVC);
    if (decoder == nullptr) {
        throw MediaError("FFmpeg has no decoder for \"hevc\". " + remedy_for_missing_part());
    }
    CodecContextPtr context(avcodec_alloc_context3(decoder));
    require_memory(context != nullptr);
    context->extradata = static_cast<std::uint8_t*>(av_mallocz(config.size() + AV_INPUT_BUFFER_PADDING_SIZE));
    require_memory(context->extradata != nullptr);
    std::ranges::copy(config, context->extradata);
    context->extradata_size = static_cast<int>(config.size());
    // Images are decoded in parallel by the caller, one thread each.
    context->thread_count = 1;
    // FFmpeg counts the pixels of padded rows.
    constexpr std::int64_t kPadding = 64 * kMaxSide;
    context->max_pixels = std::int64_t{size.width} * size.height + kPadding;
    context->get_buffer2 = take_clean_buffer;
    context->err_recognition |= AV_EF_EXPLODE | AV_EF_CRCCHECK;
    log.check(avcodec_open2(context.get(), decoder, nullptr), kTried);
    context_ = std::move(context);
    config_.assign(config.begin(), config.end());
    size_ = size;
}

void HevcPictures::forget() noexcept {
    frame_.reset();
    context_.reset();
    config_.clear();
}

extern const Backend heif_backend;
const Backend heif_backend{
    "heif", "decodes HEIF (HEIC) only, without FFmpeg's options",
    []() -> std::unique_ptr<Decoder> { return make_heif_decoder(std::make_unique<HevcPictures>()); }};

}  // namespace spdl
