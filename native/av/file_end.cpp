#include "av/file_end.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "av/demux_window.h"
#include "av/samples.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/image_items.h"
#include "ffmpeg/byte_io.h"

namespace spdl {
namespace {

bool read_all(ByteSource& source, std::uint8_t* into, std::size_t size) {
    while (size > 0) {
        const std::size_t count = source.read(into, size);
        if (count == 0) {
            return false;
        }
        into += count;
        size -= count;
    }
    return true;
}

// FFmpeg looks at 32 packets of 4 KiB; the header is in front of them.
constexpr std::size_t kLooked = std::size_t{33} << 12;

using Word = std::array<std::uint8_t, 4>;

// The synchronisation words of DTS (ETSI TS 102 114): of 16 and of 14 bits, in both orders of bytes. Then the words of
// S/PDIF (IEC 61937).
constexpr std::array<Word, 6> kWords{{{0x7F, 0xFE, 0x80, 0x01},
                                      {0xFE, 0x7F, 0x01, 0x80},
                                      {0x1F, 0xFF, 0xE8, 0x00},
                                      {0xFF, 0x1F, 0x00, 0xE8},
                                      {0x72, 0xF8, 0x1F, 0x4E},
                                      {0xF8, 0x72, 0x4E, 0x1F}}};

// Returns the first bytes, fewer for a shorter file.
std::vector<char> read_beginning(ByteSource& source, std::size_t most) {
    std::vector<char> bytes(most);
    std::size_t size = 0;
    while (size < bytes.size()) {
        const std::size_t count =
            source.read(reinterpret_cast<std::uint8_t*>(bytes.data()) + size, bytes.size() - size);
        if (count == 0) {
            break;
        }
        size += count;
    }
    bytes.resize(size);
    source.seek(0);
    return bytes;
}

bool is_wav(ByteSource& source) {
    constexpr std::size_t kHead = 12;
    const std::vector<char> head = read_beginning(source, kHead);
    return head.size() == kHead && std::memcmp(head.data() + 8, "WAVE", 4) == 0;
}

bool has_code_word(const std::vector<char>& bytes) {
    const std::string_view all(bytes.data(), bytes.size());
    return std::ranges::any_of(kWords, [&](const Word& word) {
        return all.find(std::string_view(reinterpret_cast<const char*>(word.data()), word.size())) != all.npos;
    });
}

// Says the size of another source, but has one byte more. A packet that is cut takes it.
class OneMore final : public ByteSource {
  public:
    explicit OneMore(ByteSource& source) : source_(source) {}

    [[nodiscard]] std::int64_t size() override { return source_.size(); }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        const std::size_t count = source_.read(into, size);
        if (count > 0 || given_ || size == 0) {
            return count;
        }
        given_ = true;
        *into = 0;
        return 1;
    }

    void seek(std::int64_t position) override {
        source_.seek(position);
        given_ = false;
    }

  private:
    ByteSource& source_;
    bool given_ = false;
};

// Goes after the code of the last point before a packet from which frames can be read. There is one in front of each
// large packet, and at least each 64 KiB otherwise. Without one, all packets are read.
void go_near(AVIOContext& input, std::int64_t size, std::int64_t packet) {
    constexpr std::array<std::uint8_t, 8> kPoint{'N', 'K', 0xE4, 0xAD, 0xEE, 0xCA, 0x45, 0x69};
    constexpr std::int64_t kMost = 1 << 17;
    const std::int64_t begin = std::max<std::int64_t>(packet - kMost, avio_tell(&input));
    std::vector<std::uint8_t> before(static_cast<std::size_t>(std::max<std::int64_t>(packet - begin, 0)));
    if (!Peek(input, size).read(begin, before)) {
        return;
    }
    const auto found = std::ranges::find_end(before, kPoint);
    if (!found.empty()) {
        avio_seek(&input, begin + (found.end() - before.begin()), SEEK_SET);
    }
}

bool reads_beyond(AVFormatContext& context, std::int64_t size, std::int64_t last) {
    const PacketPtr packet = make_packet();
    go_near(*context.pb, size, last);
    while (avio_tell(context.pb) < size) {
        av_packet_unref(packet.get());
        if (av_read_frame(&context, packet.get()) < 0) {
            return false;
        }
    }
    return avio_tell(context.pb) > size;
}

// Files have a handful of parts, but in Creative Voice one for each packet.
constexpr int kMostParts = 100'000;

std::optional<WavSize> compare(const Peek& file, std::int64_t begin, std::uint64_t promised) {
    const std::int64_t present = std::max<std::int64_t>(file.size() - begin, 0);
    if (promised > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        static_cast<std::int64_t>(promised) <= present) {
        return std::nullopt;
    }
    return WavSize{static_cast<std::int64_t>(promised), present};
}

// The header of AU says where the sound begins, and how long it is; the largest number leaves it open.
std::optional<WavSize> find_in_au(Peek file) {
    std::array<std::uint8_t, 12> head{};
    if (!file.read(0, head) || !is(head.data(), ".snd")) {
        return std::nullopt;
    }
    BoxReader numbers(Bytes(head).subspan(4));
    const auto begin = static_cast<std::int64_t>(numbers.take(4));
    const std::uint64_t promised = numbers.take(4);
    return promised == std::numeric_limits<std::uint32_t>::max() ? std::nullopt : compare(file, begin, promised);
}

// AIFF has big-endian chunks, otherwise like WAV. The sound's chunk begins with the offset of the sound in it.
std::optional<WavSize> find_in_aiff(Peek file) {
    std::array<std::uint8_t, 12> head{};
    constexpr std::int64_t kHead = 8;
    std::int64_t position = 12;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        BoxReader numbers(Bytes(head).subspan(4));
        const std::uint64_t size = numbers.take(4);
        position += kHead;
        if (is(head.data(), "SSND")) {
            const std::uint64_t before = std::uint64_t{kHead} + numbers.take(4);
            return is_open_size(size) || size < before
                       ? std::nullopt
                       : compare(file, position + static_cast<std::int64_t>(before), size - before);
        }
        position += static_cast<std::int64_t>(size + (size & 1));
    }
    return std::nullopt;
}

// CAF has chunks. That of the sound may say -1, which is up to the end; otherwise compare() finds it too large.
std::optional<WavSize> find_in_caf(Peek file) {
    std::array<std::uint8_t, 12> head{};
    constexpr std::int64_t kEdits = 4;  // The bytes in front of the sound that count edits.
    std::int64_t position = 8;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const std::uint64_t size = BoxReader(Bytes(head).subspan(4)).take(8);
        position += static_cast<std::int64_t>(head.size());
        if (is(head.data(), "data")) {
            return size < kEdits ? std::nullopt : compare(file, position + kEdits, size - kEdits);
        }
        if (size > static_cast<std::uint64_t>(file.size() - position)) {
            return std::nullopt;
        }
        position += static_cast<std::int64_t>(size);
    }
    return std::nullopt;
}

// Finds the one of that name among parts that begin with an identifier and a size. The size counts both, and is rounded
// up to `unit` bytes.
std::optional<WavSize> find_in_parts(Peek& file, std::string_view name, std::int64_t position, std::uint64_t unit) {
    constexpr std::int64_t kHead = 24;
    std::array<std::uint8_t, kHead> head{};
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const auto size = load_le<std::uint64_t>(head.data() + 16);
        if (is(head.data(), name)) {
            return size < kHead ? std::nullopt : compare(file, position + kHead, size - kHead);
        }
        if (size < kHead || size > static_cast<std::uint64_t>(file.size() - position)) {
            return std::nullopt;
        }
        position += static_cast<std::int64_t>((size + unit - 1) / unit * unit);
    }
    return std::nullopt;
}

std::optional<WavSize> find_in_w64(Peek file) {
    return find_in_parts(file, "data", 40, 8);
}

// ASF, which is also WMA, has objects; the second one has all packets. It has no size while it is being written.
std::optional<WavSize> find_in_asf(Peek file) {
    constexpr std::string_view kData("\x36\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c", 16);
    return find_in_parts(file, kData, 0, 1);
}

// Returns whether there is a block of Creative Voice of such a type and size.
bool is_possible_block(std::uint8_t type, std::uint64_t size) {
    switch (type) {
        case 1:  // Sound
            return size >= 2;
        case 2:  // Sound that continues the block before
        case 5:  // Text
            return true;
        case 3:  // Silence
            return size == 3;
        case 4:  // A mark
        case 6:  // The beginning of what is repeated
            return size == 2;
        case 7:  // The end of it
            return size == 0;
        case 8:  // What the next block does not say
            return size == 4;
        case 9:  // Sound that says more
            return size >= 12;
        default:
            return false;
    }
}

// Creative Voice has blocks that begin with a type and a size. SoX counts eight bytes too few in a block of the last
// type, so that the last samples look like another block, in front of the zero that ends the file.
std::optional<WavSize> find_in_voc(Peek file) {
    constexpr std::uint8_t kNewSound = 9;
    constexpr std::int64_t kDescription = 12;
    constexpr std::int64_t kNotCounted = 8;
    std::array<std::uint8_t, 22> head{};
    std::array<std::uint8_t, 1> last{};
    if (!file.read(0, head) || !file.read(file.size() - 1, last)) {
        return std::nullopt;
    }
    std::array<std::uint8_t, 4> block{};
    std::uint8_t before = 0;
    std::int64_t sound = 0;
    auto position = static_cast<std::int64_t>(load_le<std::uint16_t>(head.data() + 20));
    for (int i = 0; i < kMostParts && file.read(position, block) && block[0] != 0; ++i) {
        if (before == kNewSound && file.size() - position == kNotCounted + 1 && last[0] == 0) {
            return std::nullopt;
        }
        const std::uint64_t size = load_le<std::uint32_t>(block.data()) >> 8;
        position += static_cast<std::int64_t>(block.size());
        const std::int64_t described = block[0] == 1 ? 2 : block[0] == kNewSound ? kDescription : 0;
        const std::int64_t content = static_cast<std::int64_t>(size) - described;
        if (const auto cut = compare(file, position, size)) {
            const std::int64_t present = std::max<std::int64_t>(cut->present - described, 0);
            return is_possible_block(block[0], size) ? std::optional(WavSize{sound + content, sound + present})
                                                     : std::nullopt;
        }
        sound += block[0] == 1 || block[0] == 2 || block[0] == kNewSound ? content : 0;
        position += static_cast<std::int64_t>(size);
        before = block[0];
    }
    return std::nullopt;
}

// Returns the size of the sound in a file of that size which was cut off, by the container's number of bytes of sound;
// nothing for complete files, for an open size, and for containers without the number. Demuxers take such an end for a
// whole file's. It is called at the end of reading, and does not move the input.
std::optional<WavSize> find_cut_sound(AVFormatContext& context, std::int64_t size) {
    if (size <= 0 || context.pb == nullptr) {
        return std::nullopt;
    }
    constexpr std::pair<std::string_view, std::optional<WavSize> (*)(Peek)> kFinders[] = {
        {"aiff", find_in_aiff}, {"au", find_in_au},     {"caf", find_in_caf}, {"w64", find_in_w64},
        {"asf", find_in_asf},   {"asf_o", find_in_asf}, {"voc", find_in_voc}};
    for (const auto& [format, find] : kFinders) {
        if (format == context.iformat->name) {
            return find({*context.pb, size});
        }
    }
    return std::nullopt;
}

// The index of MP4 tells where each packet is.
bool lacks_packets(AVFormatContext& context, std::int64_t size) {
    for (unsigned i = 0; i < context.nb_streams; ++i) {
        AVStream* const stream = context.streams[i];
        const int count = stream->discard == AVDISCARD_ALL ? 0 : avformat_index_get_entries_count(stream);
        for (int entry = 0; entry < count; ++entry) {
            const AVIndexEntry* const packet = avformat_index_get_entry(stream, entry);
            if (packet->size > 0 && packet->pos > size - packet->size) {
                return true;
            }
        }
    }
    return false;
}

// The index of MP4, or of a fragment of it, is in a box that may be cut itself.
bool has_cut_index(Peek file) {
    return find_box_where(file, [](const PlacedBox& box) { return !box.whole && (box.is("moov") || box.is("moof")); });
}

// The start of an element of Matroska after its header, and its end; nothing if unknown.
struct Element {
    std::uint64_t id;
    std::int64_t begin;
    std::optional<std::uint64_t> size;
};

std::optional<Element> read_element(Peek& file, std::int64_t position) {
    std::array<std::uint8_t, 12> head{};
    if (!file.read(position, head)) {
        return std::nullopt;
    }
    const int id_bytes = std::countl_zero(head[0]) + 1;
    constexpr int kMostOfId = 4;
    if (id_bytes > kMostOfId) {
        return std::nullopt;
    }
    const int size_bytes = std::countl_zero(head[static_cast<std::size_t>(id_bytes)]) + 1;
    constexpr int kMostOfSize = 8;
    if (size_bytes > kMostOfSize) {
        return std::nullopt;
    }
    const std::uint64_t open = (std::uint64_t{1} << (7 * size_bytes)) - 1;
    BoxReader numbers(head);
    const std::uint64_t id = numbers.take(static_cast<std::size_t>(id_bytes));
    const std::uint64_t size = numbers.take(static_cast<std::size_t>(size_bytes)) & open;
    return Element{id, position + id_bytes + size_bytes, size == open ? std::nullopt : std::optional(size)};
}

// Calls `visit` with each element on the outermost level, up to one whose end is not in the file or not known. Returns
// whether it returned true, which ends this.
template <typename Visit>
bool find_element_where(Peek& file, Visit visit) {
    std::int64_t position = 0;
    for (int i = 0; i < kMostParts; ++i) {
        const std::optional<Element> element = read_element(file, position);
        if (!element) {
            return false;
        }
        const bool whole = element->size && *element->size <= static_cast<std::uint64_t>(file.size() - element->begin);
        if (visit(*element, whole)) {
            return true;
        }
        if (!whole) {
            return false;
        }
        position = element->begin + static_cast<std::int64_t>(*element->size);
    }
    return false;
}

constexpr std::uint64_t kSegment = 0x18538067;

bool has_cut_segment(Peek file) {
    return find_element_where(
        file, [](const Element& element, bool whole) { return element.id == kSegment && element.size && !whole; });
}

// A live stream does not say where its segment ends.
bool may_have_several_segments(Peek file) {
    int count = 0;
    return find_element_where(file, [&](const Element& element, bool /*whole*/) {
        count += element.id == kSegment ? 1 : 0;
        return count > 1 || !element.size;
    });
}

bool has_several_headers(Peek file) {
    int count = 0;
    return find_box_where(file, [&](const PlacedBox& box) {
        count += box.is("moov") ? 1 : 0;
        return count > 1;
    });
}

// Packets of AVI are in a list in each RIFF of the file.
bool has_cut_list(Peek file) {
    // A file that was written without seeking has no sizes, or the largest.
    constexpr std::uint32_t kOpen = 0x7FFFF000;
    std::array<std::uint8_t, 12> head{};
    std::int64_t position = 0;
    std::int64_t riff_end = 0;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const std::uint32_t size = load_le<std::uint32_t>(head.data() + 4);
        const std::int64_t end = position + 8 + size + (size & 1);
        if (size == 0 || size >= kOpen) {
            return false;
        }
        if (position >= riff_end) {
            if (!is(head.data(), "RIFF")) {
                return false;
            }
            riff_end = end;
            position += static_cast<std::int64_t>(head.size());
            continue;
        }
        if (is(head.data(), "LIST") && is(head.data() + 8, "movi") && position + 8 + size > file.size()) {
            return true;
        }
        position = end;
    }
    return false;
}

// Each tag of Flash video is followed by its size.
bool has_cut_tag(Peek file) {
    constexpr std::int64_t kHead = 11;
    std::array<std::uint8_t, 4> size{};
    std::array<std::uint8_t, kHead> head{};
    const auto length = [&] { return static_cast<std::int64_t>(BoxReader(Bytes(head).subspan(1)).take(3)); };
    const std::int64_t last = file.size() - static_cast<std::int64_t>(size.size());
    if (file.read(last, size)) {
        const auto whole = static_cast<std::int64_t>(BoxReader(size).take(4));
        if (whole >= kHead && whole <= last && file.read(last - whole, head) && length() == whole - kHead) {
            return false;
        }
    }
    // Not every writer adds the last size.
    std::int64_t position = 9 + static_cast<std::int64_t>(size.size());
    for (int i = 0; i < kMostParts; ++i) {
        if (!file.read(position, head)) {
            return position < file.size();
        }
        const std::int64_t end = position + kHead + length();
        if (end >= file.size()) {
            return end > file.size();
        }
        position = end + static_cast<std::int64_t>(size.size());
    }
    return false;
}

// A page of Ogg has at most 255 segments of at most 255 bytes.
bool has_cut_page(Peek file) {
    constexpr std::int64_t kHead = 27;
    constexpr std::int64_t kMost = kHead + 255 + 255 * 255;
    std::array<std::uint8_t, kHead> head{};
    std::array<std::uint8_t, 1> segment{};
    for (std::int64_t position = file.size() - 1; position >= std::max<std::int64_t>(file.size() - kMost, 0);
         --position) {
        std::array<std::uint8_t, 5> capture{};
        if (!file.read(position, segment) || segment[0] != 'O' || !file.read(position, capture) ||
            !is(capture.data(), std::string_view("OggS\0", 5))) {
            continue;
        }
        if (!file.read(position, head)) {
            return true;
        }
        std::int64_t end = position + kHead + head.back();
        for (int i = 0; i < head.back(); ++i) {
            if (!file.read(position + kHead + i, segment)) {
                return true;
            }
            end += segment[0];
        }
        return end > file.size();
    }
    return false;
}

// Returns whether a file of that size ends before the packets of the selected streams, or the index that names them, by
// the sizes in the container. Demuxers take such an end for a whole file's. It is called at the end of reading, and
// does not move the input.
bool ends_early(AVFormatContext& context, std::int64_t size) {
    if (size <= 0 || context.pb == nullptr) {
        return false;
    }
    const std::string_view format = context.iformat->name;
    if (format.find("mp4") != std::string_view::npos) {
        return lacks_packets(context, size) || has_cut_index({*context.pb, size});
    }
    if (format.find("matroska") != std::string_view::npos) {
        return has_cut_segment({*context.pb, size});
    }
    if (format == "flv") {
        return has_cut_tag({*context.pb, size});
    }
    if (format == "ogg") {
        return has_cut_page({*context.pb, size});
    }
    return format == "avi" && has_cut_list({*context.pb, size});
}

// The packets of MPEG-TS have one size throughout a file, and all begin with the same byte. If another byte follows the
// last one, it is something else.
bool has_cut_packet(AVFormatContext& context, std::int64_t size) {
    constexpr std::uint8_t kSync = 0x47;
    constexpr std::int64_t kWithTime = 192;  // Four bytes of it in front of each packet.
    std::int64_t packet = 0;
    if (context.iformat->name != std::string_view("mpegts") ||
        av_opt_get_int(context.priv_data, "ts_packetsize", 0, &packet) < 0 || packet <= 0 || size <= 0 ||
        size % packet == 0) {
        return false;
    }
    const std::int64_t last = size - size % packet + (packet == kWithTime ? 4 : 0);
    Peek file(*context.pb, size);
    std::array<std::uint8_t, 1> first{};
    std::array<std::uint8_t, 1> before{};
    return last >= size ||
           (file.read(last, first) && first[0] == kSync && file.read(last - packet, before) && before[0] == kSync);
}

// Demuxers that notice it say so in the log only, and end as if the file were whole; the demuxer of MPEG-TS says
// nothing.
void check_containers(AVFormatContext& context, std::int64_t size, const FfmpegLog& log) {
    const std::string& line = log.line();
    const bool said = line.find("prematurely") != std::string::npos || line.find("truncated") != std::string::npos;
    if (said || has_cut_packet(context, size) || ends_early(context, size)) {
        throw DamageError(std::string("cannot read the file: it ends in the middle") +
                          (line.empty() ? "" : " (FFmpeg: " + line + ")") + ". A window that ends before can be read");
    }
}

[[noreturn]] void raise_cut(const std::string& found, const std::string& promised, const char* what = "sound") {
    throw DamageError("the file ends after " + found + " of " + what + ", but its header says " + promised +
                      ": it is cut off. To take what there is, pass "
                      "demux_config(format_options={\"err_detect\": \"ignore_err\"})");
}

// The headers of these say how many bytes of sound there are. For WAV, FFmpeg corrects what it says.
void check_bytes(AVFormatContext& context, std::int64_t size, const std::optional<WavSize>& cut_wav) {
    const std::string_view format = context.iformat->name;
    const bool wav = format == "wav";
    const std::optional<WavSize> cut = wav ? cut_wav : find_cut_sound(context, size);
    if (!cut) {
        return;
    }
    // Blocks of coded sound have no size in samples that a part of one could be told in.
    const std::int64_t block = context.nb_streams == 1 ? bytes_of_sample(*context.streams[0]->codecpar) : 0;
    if (block == 0) {
        // Those of ASF may be of videos, too.
        raise_cut(std::to_string(cut->present) + " bytes", std::to_string(cut->promised),
                  format.starts_with("asf") ? "packets" : "sound");
    }
    // The sound of some files ends within a sample. There is nothing to miss of it.
    if (const std::int64_t found = cut->present / block, promised = cut->promised / block; found < promised) {
        raise_cut(std::to_string(found) + " samples", std::to_string(promised));
    }
}

// Returns the samples of a file by its header, if that says it to the sample; otherwise nothing.
std::optional<std::int64_t> promised_samples(const AVFormatContext& context) {
    const std::string_view format = context.iformat->name;
    if ((format != "flac" && format != "wv" && format != "tta") ||
        context.duration_estimation_method != AVFMT_DURATION_FROM_STREAM || context.streams[0]->duration <= 0) {
        return std::nullopt;
    }
    const AVStream& sound = *context.streams[0];
    return rescale_time(sound.duration, sound.time_base, {1, sound.codecpar->sample_rate});
}

// Returns how many samples there were when the packet ended that was read last.
std::int64_t found_samples(const AVFormatContext& context, std::int64_t last_end) {
    const AVStream& sound = *context.streams[0];
    const std::int64_t start = sound.start_time == AV_NOPTS_VALUE ? 0 : sound.start_time;
    return rescale_time(last_end - start, sound.time_base, {1, sound.codecpar->sample_rate});
}

// Reads from the format of a WAV file, at that position, whether bits of samples are unused: 24 bits may be stored in
// 32, say.
void find_unused_bits(ByteSource& source, std::uint64_t position, std::uint64_t size, WavSizes& sizes) {
    constexpr std::uint16_t kExtensible = 0xfffe;
    constexpr std::size_t kUsed = 18;
    std::array<std::uint8_t, kUsed + 2> format{};
    if (size < format.size() || !read_all(source, format.data(), format.size())) {
        return;
    }
    const auto bits = load_le<std::uint16_t>(format.data() + 14);
    const auto used = load_le<std::uint16_t>(format.data() + kUsed);
    if (load_le<std::uint16_t>(format.data()) == kExtensible && used != 0 && used != bits) {
        sizes.used = position + kUsed;
        sizes.bits = bits;
    }
}

}  // namespace

std::optional<WavSizes> find_wav_sizes(ByteSource& source) {
    std::array<std::uint8_t, 12> head{};
    if (!read_all(source, head.data(), head.size()) || !is(head.data() + 8, "WAVE") ||
        !(is(head.data(), "RIFF") || is(head.data(), "RF64") || is(head.data(), "BW64"))) {
        return std::nullopt;
    }
    WavSizes sizes;
    sizes.riff = load_le<std::uint32_t>(head.data() + 4);
    sizes.file = static_cast<std::uint64_t>(source.size());
    constexpr std::uint64_t kHeader = 8;
    std::uint64_t position = head.size();
    std::array<std::uint8_t, kHeader> chunk{};
    // Files have a handful. Zeros would be not an end of empty ones.
    constexpr int kMostChunks = 1000;
    for (int i = 0; i < kMostChunks && read_all(source, chunk.data(), chunk.size()); ++i) {
        position += kHeader;
        const std::uint64_t size = load_le<std::uint32_t>(chunk.data() + 4);
        std::array<std::uint8_t, 16> large{};
        if (is(chunk.data(), "ds64") && read_all(source, large.data(), large.size())) {
            sizes.riff = load_le<std::uint64_t>(large.data());
            sizes.data = load_le<std::uint64_t>(large.data() + 8);
            sizes.place = position + 8;
        } else if (is(chunk.data(), "fmt ")) {
            find_unused_bits(source, position, size, sizes);
        } else if (is(chunk.data(), "data")) {
            constexpr std::uint64_t kInFirstChunk = 0xFFFFFFFF;
            sizes.data = size == kInFirstChunk && sizes.data > 0 ? sizes.data : size;
            sizes.present = sizes.file - position;
            return sizes;
        }
        position += size + (size & 1);
        if (position >= sizes.file) {
            return std::nullopt;
        }
        source.seek(static_cast<std::int64_t>(position));
    }
    return std::nullopt;
}

std::optional<WavSize> find_cut_wav(ByteSource& source) {
    if (source.size() == ByteSource::kUnknown) {
        return std::nullopt;
    }
    const std::optional<WavSizes> found = find_wav_sizes(source);
    source.seek(0);
    if (!found) {
        return std::nullopt;
    }
    const std::uint64_t promised = bytes_of_sound(*found);
    return promised <= found->present
               ? std::nullopt
               : std::optional(WavSize{static_cast<std::int64_t>(promised), static_cast<std::int64_t>(found->present)});
}

bool is_plain_wav(ByteSource& source) {
    return source.size() != ByteSource::kUnknown && is_wav(source) && !has_code_word(read_beginning(source, kLooked));
}

bool ends_within_nut_packet(ByteSource& source, std::int64_t last) {
    constexpr int kBuffer = 1 << 16;
    OneMore longer(source);
    longer.seek(0);
    Input input(longer, kBuffer);
    AVFormatContext* given = avformat_alloc_context();
    require_memory(given != nullptr);
    given->pb = input.context();
    given->flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_NOPARSE;
    // On failure libav frees what it was given.
    const int opened = avformat_open_input(&given, nullptr, av_find_input_format("nut"), nullptr);
    const FormatContextPtr context(given);
    const bool beyond = opened >= 0 && reads_beyond(*context, source.size(), last);
    input.rethrow();
    source.seek(source.size());
    return beyond;
}

bool has_fragments(AVIOContext& input, std::int64_t size) {
    Peek file(input, size);
    return find_box_where(file, [](const PlacedBox& box) { return box.is("moof"); });
}

bool may_be_several(AVFormatContext& context, std::int64_t size) {
    const std::string_view format = context.iformat->name;
    return format.find("mp4") != std::string_view::npos ? has_several_headers({*context.pb, size})
                                                        : may_have_several_segments({*context.pb, size});
}

void check_end(AVFormatContext& context, std::int64_t size, const FfmpegLog& log, std::int64_t last_end,
               const std::optional<WavSize>& cut_wav) {
    check_containers(context, size, log);
    if ((context.error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return;
    }
    check_bytes(context, size, cut_wav);
    const std::optional<std::int64_t> promised = promised_samples(context);
    if (!promised || last_end == AV_NOPTS_VALUE) {
        return;
    }
    if (const std::int64_t found = found_samples(context, last_end); found < *promised) {
        raise_cut(std::to_string(found) + " samples", std::to_string(*promised));
    }
}

bool has_all(const AVFormatContext& context, std::int64_t last_end) {
    const std::optional<std::int64_t> promised = promised_samples(context);
    return promised && last_end != AV_NOPTS_VALUE && found_samples(context, last_end) >= *promised;
}

}  // namespace spdl
