#include "av/packet_archive.h"

#include <libdeflate.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "av/archive_parameters.h"
#include "av/archive_reader.h"
#include "av/archive_writer.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

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
class SharedMemory {
  public:
    SharedMemory(std::shared_ptr<const void> owner, Bytes memory) {
        auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
        buffer_ = av_buffer_create(
            const_cast<std::uint8_t*>(memory.data()), memory.size(),
            [](void* opaque, std::uint8_t* /*data*/) { delete static_cast<std::shared_ptr<const void>*>(opaque); },
            kept.get(), AV_BUFFER_FLAG_READONLY);
        if (buffer_ == nullptr) {
            throw std::bad_alloc();
        }
        static_cast<void>(kept.release());
    }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() { av_buffer_unref(&buffer_); }

    void show(Bytes part, AVPacket& packet) const {
        if (part.size() > kMaxEncodedBytes - kPadding) {
            throw MediaError("the pickled packets are damaged: a packet is too large");
        }
        packet.buf = av_buffer_ref(buffer_);
        if (packet.buf == nullptr) {
            throw std::bad_alloc();
        }
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
