#include "av/packet_archive.h"

#include <libdeflate.h>

#include <climits>
#include <optional>
#include <utility>

#include "core/geometry.h"
#include "core/non_copyable.h"
#include "ffmpeg/frames.h"

namespace spdl {
namespace {

constexpr int kMaxChannels = 1024;
constexpr std::uint64_t kMaxSideData = 1 << 24;

std::string text_or_empty(const char* text) {
    return text == nullptr ? "" : text;
}

[[noreturn]] void refuse_name(const char* what, const std::string& name) {
    throw MediaError(std::string("the pickled packets name the ") + what + " \"" + name +
                     "\", which the FFmpeg in use does not know. " + remedy_for_missing_part());
}

// Returns the number that FFmpeg has for a name; `unknown` for "".
template <typename T, typename Find>
T read_name(ArchiveReader& reader, const char* what, T unknown, const Find& find) {
    const std::string name = reader.text();
    if (name.empty()) {
        return unknown;
    }
    const int value = find(name.c_str());
    if (value < 0) {
        refuse_name(what, name);
    }
    return static_cast<T>(value);
}

std::string layout_text(const AVChannelLayout& layout) {
    return layout.order == AV_CHANNEL_ORDER_UNSPEC ? "" : channel_layout_text(layout);
}

void read_layout(ArchiveReader& reader, AVChannelLayout& layout) {
    const std::string text = reader.text();
    const auto channels = reader.number<std::int32_t>("the number of channels", 0, kMaxChannels);
    if (!text.empty()) {
        if (av_channel_layout_from_string(&layout, text.c_str()) < 0) {
            refuse_name("channel layout", text);
        }
        if (layout.nb_channels != channels || av_channel_layout_check(&layout) == 0) {
            throw MediaError("the pickled packets are damaged: their channel layout has another number of channels");
        }
    } else if (channels > 0) {
        layout.order = AV_CHANNEL_ORDER_UNSPEC;
        layout.nb_channels = channels;
    }
}

const char* format_name(const AVCodecParameters& parameters) {
    return parameters.codec_type == AVMEDIA_TYPE_AUDIO
               ? av_get_sample_fmt_name(static_cast<AVSampleFormat>(parameters.format))
               : av_get_pix_fmt_name(static_cast<AVPixelFormat>(parameters.format));
}

int largest_depth(const AVCodecParameters& parameters) {
    if (parameters.codec_type == AVMEDIA_TYPE_AUDIO) {
        return 64;
    }
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(parameters.format));
    return format == nullptr ? 0 : format->comp[0].depth;
}

// Kinds of side data that decoders look at, and the sizes that they have. The content of other kinds is laid out as
// FFmpeg's structures, which differ between releases and are not checked.
struct SideDataKind {
    AVPacketSideDataType type;
    std::size_t least;
    std::size_t most;
};
constexpr SideDataKind kSideData[] = {
    {AV_PKT_DATA_PALETTE, AVPALETTE_SIZE, AVPALETTE_SIZE},
    {AV_PKT_DATA_NEW_EXTRADATA, 0, kMaxSideData},
    {AV_PKT_DATA_DISPLAYMATRIX, 36, 36},
    {AV_PKT_DATA_SKIP_SAMPLES, 10, 10},
    {AV_PKT_DATA_JP_DUALMONO, 1, 1},
    {AV_PKT_DATA_MATROSKA_BLOCKADDITIONAL, 8, kMaxSideData},
    {AV_PKT_DATA_A53_CC, 0, kMaxSideData},
};

bool is_kept(AVPacketSideDataType type, std::size_t size) {
    return std::ranges::any_of(kSideData, [&](const SideDataKind& kind) {
        return kind.type == type && size >= kind.least && size <= kind.most;
    });
}

AVPacketSideDataType find_side_data(const std::string& name) {
    for (const SideDataKind& kind : kSideData) {
        if (name == text_or_empty(av_packet_side_data_name(kind.type))) {
            return kind.type;
        }
    }
    refuse_name("side data", name);
}

void write_side_data(ArchiveWriter& writer, const AVPacketSideData* data, int count) {
    const auto kept = [](const AVPacketSideData& each) { return is_kept(each.type, each.size); };
    writer.number(static_cast<std::uint32_t>(std::count_if(data, data + count, kept)));
    for (const AVPacketSideData* each = data; each != data + count; ++each) {
        if (kept(*each)) {
            writer.text(av_packet_side_data_name(each->type));
            writer.data({each->data, each->size});
        }
    }
}

// Calls `add` with each kind and its data.
template <typename Add>
void read_each_side_data(ArchiveReader& reader, const Add& add) {
    const auto count = reader.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < count; ++i) {
        const AVPacketSideDataType type = find_side_data(reader.text());
        const Bytes data = reader.data();
        if (!is_kept(type, data.size())) {
            throw MediaError("the pickled packets are damaged: their side data has a wrong size");
        }
        std::uint8_t* const to = add(type, data.size());
        require_memory(to != nullptr);
        std::ranges::copy(data, to);
    }
}

void write_rational(ArchiveWriter& writer, AVRational value) {
    writer.number<std::int32_t>(value.num);
    writer.number<std::int32_t>(value.den);
}

// `may_be_unknown` is whether 0 is accepted.
AVRational read_rational(ArchiveReader& reader, const char* what, bool may_be_unknown) {
    const auto numerator = reader.number<std::int32_t>(what, may_be_unknown ? 0 : 1, INT32_MAX);
    const auto denominator = reader.number<std::int32_t>(what, may_be_unknown && numerator == 0 ? 0 : 1, INT32_MAX);
    return {numerator, denominator};
}

void write_parameters(ArchiveWriter& writer, const AVCodecParameters& parameters) {
    writer.text(avcodec_get_name(parameters.codec_id));
    writer.number<std::uint32_t>(parameters.codec_tag);
    writer.data({parameters.extradata, static_cast<std::size_t>(parameters.extradata_size)});
    writer.text(text_or_empty(format_name(parameters)));
    writer.number<std::int64_t>(parameters.bit_rate);
    for (const int number :
         {parameters.bits_per_coded_sample, std::min(parameters.bits_per_raw_sample, largest_depth(parameters)),
          parameters.profile, parameters.level, parameters.width, parameters.height, parameters.video_delay,
          parameters.sample_rate, parameters.block_align, parameters.frame_size, parameters.initial_padding,
          parameters.trailing_padding, parameters.seek_preroll, static_cast<int>(parameters.field_order)}) {
        writer.number<std::int32_t>(number);
    }
    write_rational(writer, parameters.sample_aspect_ratio);
    writer.text(text_or_empty(av_color_range_name(parameters.color_range)));
    writer.text(text_or_empty(av_color_primaries_name(parameters.color_primaries)));
    writer.text(text_or_empty(av_color_transfer_name(parameters.color_trc)));
    writer.text(text_or_empty(av_color_space_name(parameters.color_space)));
    writer.text(text_or_empty(av_chroma_location_name(parameters.chroma_location)));
    writer.text(layout_text(parameters.ch_layout));
    writer.number<std::int32_t>(parameters.ch_layout.nb_channels);
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    write_side_data(writer, parameters.coded_side_data, parameters.nb_coded_side_data);
#else
    write_side_data(writer, nullptr, 0);
#endif
}

CodecParametersPtr read_parameters(ArchiveReader& reader) {
    CodecParametersPtr parameters = make_parameters();
    const std::string codec = reader.text();
    const AVCodecDescriptor* const descriptor = avcodec_descriptor_get_by_name(codec.c_str());
    if (descriptor == nullptr) {
        refuse_name("codec", codec);
    }
    parameters->codec_id = descriptor->id;
    parameters->codec_type = descriptor->type;
    parameters->codec_tag = reader.number<std::uint32_t>();
    if (const Bytes extra = reader.data(); !extra.empty()) {
        if (extra.size() > kMaxEncodedBytes - AV_INPUT_BUFFER_PADDING_SIZE) {
            throw MediaError("the pickled packets are damaged: what their decoder must know is too large");
        }
        parameters->extradata = static_cast<std::uint8_t*>(av_mallocz(extra.size() + AV_INPUT_BUFFER_PADDING_SIZE));
        require_memory(parameters->extradata != nullptr);
        std::ranges::copy(extra, parameters->extradata);
        parameters->extradata_size = static_cast<int>(extra.size());
    }
    const bool sound = descriptor->type == AVMEDIA_TYPE_AUDIO;
    parameters->format = read_name(reader, "format", -1, [&](const char* name) {
        return sound ? static_cast<int>(av_get_sample_fmt(name)) : static_cast<int>(av_get_pix_fmt(name));
    });
    const auto number = [&](const char* what, int least, int most) {
        return reader.number<std::int32_t>(what, least, most);
    };
    parameters->bit_rate = reader.number<std::int64_t>("the bit rate", 0, INT64_MAX);
    parameters->bits_per_coded_sample = number("the depth", 0, 128);
    // FFV1 believes it, and would write beyond a frame of fewer bits.
    parameters->bits_per_raw_sample = number("the depth", 0, largest_depth(*parameters));
    parameters->profile = number("the profile", INT_MIN, INT_MAX);
    parameters->level = number("the level", INT_MIN, INT_MAX);
    parameters->width = number("the width", 0, kMaxSide);
    parameters->height = number("the height", 0, kMaxSide);
    parameters->video_delay = number("the delay", 0, 16);
    parameters->sample_rate = number("the sample rate", 0, INT_MAX);
    parameters->block_align = number("the size of a block", 0, INT_MAX);
    parameters->frame_size = number("the size of a frame", 0, INT_MAX);
    parameters->initial_padding = number("the padding", 0, INT_MAX);
    parameters->trailing_padding = number("the padding", 0, INT_MAX);
    parameters->seek_preroll = number("the preroll", 0, INT_MAX);
    parameters->field_order = static_cast<AVFieldOrder>(number("the order of fields", 0, AV_FIELD_BT));
    parameters->sample_aspect_ratio = read_rational(reader, "the shape of a pixel", true);
    parameters->color_range = read_name(reader, "color range", AVCOL_RANGE_UNSPECIFIED, av_color_range_from_name);
    parameters->color_primaries =
        read_name(reader, "color primaries", AVCOL_PRI_UNSPECIFIED, av_color_primaries_from_name);
    parameters->color_trc = read_name(reader, "color transfer", AVCOL_TRC_UNSPECIFIED, av_color_transfer_from_name);
    parameters->color_space = read_name(reader, "color space", AVCOL_SPC_UNSPECIFIED, av_color_space_from_name);
    parameters->chroma_location =
        read_name(reader, "chroma location", AVCHROMA_LOC_UNSPECIFIED, av_chroma_location_from_name);
    read_layout(reader, parameters->ch_layout);
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    read_each_side_data(reader, [&](AVPacketSideDataType type, std::size_t size) -> std::uint8_t* {
        AVPacketSideData* const made =
            av_packet_side_data_new(&parameters->coded_side_data, &parameters->nb_coded_side_data, type, size, 0);
        return made == nullptr ? nullptr : made->data;
    });
#else
    // Streams keep nothing beside them there, and decoders do not ask for it.
    std::vector<std::uint8_t> dropped;
    read_each_side_data(reader, [&](AVPacketSideDataType /*type*/, std::size_t size) {
        dropped.resize(size + 1);
        return dropped.data();
    });
#endif
    return parameters;
}

void read_side_data(ArchiveReader& reader, AVPacket& packet) {
    read_each_side_data(reader, [&](AVPacketSideDataType type, std::size_t size) {
        return av_packet_new_side_data(&packet, type, size);
    });
}

constexpr std::uint8_t kMagic[] = {'S', 'P', 'D', 'L', 'p', 'k', 't', 's'};
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kPadding = AV_INPUT_BUFFER_PADDING_SIZE;
constexpr int kKeptFlags = AV_PKT_FLAG_KEY | AV_PKT_FLAG_CORRUPT | AV_PKT_FLAG_DISCARD | AV_PKT_FLAG_DISPOSABLE;

// It stands in front of everything else.
struct Header {
    std::uint8_t magic[sizeof(kMagic)];
    std::uint32_t version;
    std::uint32_t checksum;  // CRC-32 of what follows from `size` on.
    std::uint64_t size;      // Of the whole.
    std::uint64_t kind;
};

std::uint32_t checksum(Bytes bytes) {
    const Bytes covered = bytes.subspan(offsetof(Header, size));
    return libdeflate_crc32(0, covered.data(), covered.size());
}

ArchiveWriter begin() {
    ArchiveWriter writer;
    writer.bytes().resize(sizeof(Header));
    return writer;
}

std::vector<std::uint8_t> finish(ArchiveWriter writer, ArchiveKind kind) {
    std::vector<std::uint8_t> bytes = std::move(writer.bytes());
    Header header{{}, kVersion, 0, bytes.size(), static_cast<std::uint64_t>(kind)};
    std::ranges::copy(kMagic, header.magic);
    std::memcpy(bytes.data(), &header, sizeof(header));
    header.checksum = checksum(bytes);
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
}

// Returns the kind, and a reader of what follows the header.
std::pair<ArchiveKind, ArchiveReader> open(Bytes bytes) {
    Header header;
    if (bytes.size() < sizeof(header) || !std::ranges::equal(bytes.first(sizeof(kMagic)), kMagic)) {
        throw MediaError("these " + std::to_string(bytes.size()) +
                         " bytes are not pickled packets: they do not begin as those do");
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.version != kVersion) {
        throw MediaError("the pickled packets are in version " + std::to_string(header.version) +
                         " of their format, and this release reads version " + std::to_string(kVersion) +
                         ": pickle and unpickle them with the same release");
    }
    if (header.size != bytes.size()) {
        throw MediaError("the pickled packets are damaged: there are " + std::to_string(bytes.size()) +
                         " bytes, and there should be " + std::to_string(header.size));
    }
    if (header.checksum != checksum(bytes)) {
        throw MediaError("the pickled packets are damaged: their checksum is wrong");
    }
    if (header.kind > static_cast<std::uint64_t>(ArchiveKind::kVideo)) {
        throw MediaError("the pickled packets are damaged: they are of no known kind");
    }
    return {static_cast<ArchiveKind>(header.kind), ArchiveReader(bytes.subspan(sizeof(header)))};
}

const char* describe(ArchiveKind kind) {
    switch (kind) {
        case ArchiveKind::kAudio:
            return "AudioPackets";
        case ArchiveKind::kVideo:
            return "VideoPackets";
        default:
            return "ImagePackets";
    }
}

[[noreturn]] void refuse_kind(ArchiveKind got, ArchiveKind wanted) {
    throw MediaError(std::string("these are pickled ") + describe(got) + ", not " + describe(wanted) + ": use " +
                     describe(got) + ".deserialize");
}

std::int64_t read_time(ArchiveReader& reader) {
    const auto time = reader.number<std::int64_t>();
    if (time != AV_NOPTS_VALUE && (time < -kMaxTime || time > kMaxTime)) {
        throw MediaError("the pickled packets are damaged: a time is " + std::to_string(time));
    }
    return time;
}

void write_moment(ArchiveWriter& writer, const std::optional<Moment>& moment) {
    writer.number<std::uint8_t>(moment ? 1 : 0);
    writer.number<std::int64_t>(moment ? moment->numerator : 0);
    writer.number<std::int32_t>(moment ? moment->denominator : 1);
}

std::optional<Moment> read_moment(ArchiveReader& reader) {
    const auto there = reader.number<std::uint8_t>("a bound", 0, 1);
    const Moment moment{reader.number<std::int64_t>("a bound", -kMaxTime, kMaxTime),
                        reader.number<std::int32_t>("a bound", 1, INT_MAX)};
    return there == 1 ? std::optional(moment) : std::nullopt;
}

void write_packet(ArchiveWriter& writer, const AVPacket& packet) {
    writer.number<std::int64_t>(packet.pts);
    writer.number<std::int64_t>(packet.dts);
    writer.number<std::int64_t>(std::max<std::int64_t>(packet.duration, 0));
    writer.number<std::int64_t>(packet.pos);
    writer.number<std::int32_t>(packet.flags & kKeptFlags);
    write_side_data(writer, packet);
    writer.data({packet.data, static_cast<std::size_t>(packet.size)}, kPadding);
}

// The memory that packets lie in, as libav counts its users.
class SharedMemory : NonCopyable {
  public:
    SharedMemory(std::shared_ptr<const void> owner, Bytes memory) {
        auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
        buffer_ = av_buffer_create(
            const_cast<std::uint8_t*>(memory.data()), memory.size(),
            [](void* opaque, std::uint8_t* /*data*/) { delete static_cast<std::shared_ptr<const void>*>(opaque); },
            kept.get(), AV_BUFFER_FLAG_READONLY);
        require_memory(buffer_ != nullptr);
        static_cast<void>(kept.release());
    }
    ~SharedMemory() { av_buffer_unref(&buffer_); }

    void show(Bytes part, AVPacket& packet) const {
        if (part.size() > kMaxEncodedBytes - kPadding) {
            throw MediaError("the pickled packets are damaged: a packet is too large");
        }
        packet.buf = av_buffer_ref(buffer_);
        require_memory(packet.buf != nullptr);
        packet.data = const_cast<std::uint8_t*>(part.data());
        packet.size = static_cast<int>(part.size());
    }

  private:
    AVBufferRef* buffer_ = nullptr;
};

PacketPtr read_packet(ArchiveReader& reader, const SharedMemory& memory, AVRational time_base) {
    PacketPtr packet = make_packet();
    packet->pts = read_time(reader);
    packet->dts = read_time(reader);
    packet->duration = reader.number<std::int64_t>("a duration", 0, kMaxTime);
    packet->pos = reader.number<std::int64_t>("a position", -1, INT64_MAX);
    packet->flags = reader.number<std::int32_t>() & kKeptFlags;
    packet->time_base = time_base;
    read_side_data(reader, *packet);
    memory.show(reader.data(kPadding), *packet);
    return packet;
}

}  // namespace

void write_side_data(ArchiveWriter& writer, const AVPacket& packet) {
    write_side_data(writer, packet.side_data, packet.side_data_elems);
}

std::vector<std::uint8_t> archive(const std::string& name, const PacketList& list) {
    const Stream& stream = *list.stream;
    ArchiveWriter writer = begin();
    writer.reserve(list.bytes() + list.packets.size() * 128 + 4096);
    writer.text(name);
    writer.number<std::int32_t>(stream.index);
    write_parameters(writer, *stream.parameters);
    write_rational(writer, stream.time_base);
    write_rational(writer, stream.frame_rate);
    writer.number<std::int64_t>(stream.start);
    writer.number<std::int64_t>(stream.duration);
    writer.number<std::int64_t>(stream.num_frames);
    writer.number<std::uint8_t>(static_cast<std::uint8_t>(stream.times));
    writer.number<std::uint8_t>(stream.tells_keys ? 1 : 0);
    writer.number<std::uint8_t>(stream.counts_samples ? 1 : 0);
    writer.number<std::uint8_t>(stream.makes_up_times ? 1 : 0);
    writer.number<std::int32_t>(stream.rotation);
    write_moment(writer, list.window.start);
    write_moment(writer, list.window.end);
    writer.number<std::uint64_t>(list.packets.size());
    for (const PacketPtr& packet : list.packets) {
        write_packet(writer, *packet);
    }
    return finish(std::move(writer), stream.medium == Medium::kAudio ? ArchiveKind::kAudio : ArchiveKind::kVideo);
}

std::vector<std::uint8_t> archive(const std::string& name, const ImagePacket& packet) {
    ArchiveWriter writer = begin();
    writer.text(name);
    write_parameters(writer, *packet.parameters);
    write_rational(writer, packet.time_base);
    write_packet(writer, *packet.packet);
    return finish(std::move(writer), ArchiveKind::kImagePacket);
}

std::vector<std::uint8_t> archive_file(const std::string& name, Bytes file) {
    ArchiveWriter writer = begin();
    writer.reserve(file.size() + 128);
    writer.text(name);
    writer.data(file);
    return finish(std::move(writer), ArchiveKind::kImageFile);
}

ArchivedPackets restore_packets(const std::shared_ptr<const void>& owner, Bytes bytes, Medium medium) {
    const ArchiveKind wanted = medium == Medium::kAudio ? ArchiveKind::kAudio : ArchiveKind::kVideo;
    auto [kind, reader] = open(bytes);
    if (kind != wanted) {
        refuse_kind(kind, wanted);
    }
    ArchivedPackets restored{reader.user_text(), {}};
    Stream stream;
    stream.medium = medium;
    stream.index = reader.number<std::int32_t>("the index of the stream", 0, INT_MAX);
    stream.parameters = read_parameters(reader);
    if (stream.parameters->codec_type != (medium == Medium::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO)) {
        throw MediaError("the pickled packets are damaged: their codec is one of another medium");
    }
    stream.time_base = read_rational(reader, "the time base", false);
    stream.frame_rate = read_rational(reader, "the frame rate", true);
    stream.start = read_time(reader);
    stream.duration = read_time(reader);
    stream.num_frames = reader.number<std::int64_t>("the number of frames", 0, INT64_MAX);
    stream.times = static_cast<Times>(reader.number<std::uint8_t>("what packets tell of times", 0, 3));
    stream.tells_keys = reader.number<std::uint8_t>("whether packets tell key frames", 0, 1) != 0;
    stream.counts_samples = reader.number<std::uint8_t>("whether packets tell samples", 0, 1) != 0;
    stream.makes_up_times = reader.number<std::uint8_t>("whether times are made up", 0, 1) != 0;
    stream.rotation = reader.number<std::int32_t>("the rotation", 0, 270);
    if (stream.rotation % 90 != 0) {
        throw MediaError("the pickled packets are damaged: the rotation is " + std::to_string(stream.rotation));
    }
    PacketList& list = restored.list;
    list.window.start = read_moment(reader);
    list.window.end = read_moment(reader);
    const auto count = reader.number<std::uint64_t>();
    const SharedMemory memory(owner, bytes);
    for (std::uint64_t i = 0; i < count; ++i) {
        list.packets.push_back(read_packet(reader, memory, stream.time_base));
        list.packets.back()->stream_index = stream.index;
    }
    reader.finish();
    list.stream = std::make_shared<const Stream>(std::move(stream));
    return restored;
}

ArchivedImage restore_image(const std::shared_ptr<const void>& owner, Bytes bytes) {
    auto [kind, reader] = open(bytes);
    if (kind != ArchiveKind::kImageFile && kind != ArchiveKind::kImagePacket) {
        refuse_kind(kind, ArchiveKind::kImageFile);
    }
    ArchivedImage restored{reader.user_text(), {}, {}};
    if (kind == ArchiveKind::kImageFile) {
        restored.file = reader.data();
        reader.finish();
        return restored;
    }
    ImagePacket& packet = restored.packet;
    packet.parameters = read_parameters(reader);
    if (packet.parameters->codec_type != AVMEDIA_TYPE_VIDEO) {
        throw MediaError("the pickled packets are damaged: their codec is not one of pictures");
    }
    packet.time_base = read_rational(reader, "the time base", true);
    const SharedMemory memory(owner, bytes);
    packet.packet = read_packet(reader, memory, packet.time_base);
    reader.finish();
    return restored;
}

}  // namespace spdl
