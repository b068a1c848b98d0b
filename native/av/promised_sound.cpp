#include "av/promised_sound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "av/file_peek.h"
#include "core/file_boxes.h"
#include "core/little_endian.h"
#include "core/wav_sizes.h"

namespace spdl {
namespace {

// Files have a handful of parts, but those of Creative Voice one for each packet.
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

// AIFF has chunks, big-endian ones like those of WAV. That of the sound begins with where in it the sound begins.
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

// Wave64 has chunks that begin with an identifier and a size, which counts both and is rounded up to 8 bytes.
std::optional<WavSize> find_in_w64(Peek file) {
    constexpr std::int64_t kHead = 24;
    std::array<std::uint8_t, kHead> head{};
    std::int64_t position = 40;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const auto size = load_le<std::uint64_t>(head.data() + 16);
        if (is(head.data(), "data")) {
            return size < kHead ? std::nullopt : compare(file, position + kHead, size - kHead);
        }
        if (size < kHead || size > static_cast<std::uint64_t>(file.size() - position)) {
            return std::nullopt;
        }
        position += static_cast<std::int64_t>((size + 7) / 8 * 8);
    }
    return std::nullopt;
}

// ASF, which is also WMA, has objects; the second one has all packets. It has no size while it is being written.
std::optional<WavSize> find_in_asf(Peek file) {
    constexpr std::string_view kData("\x36\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c", 16);
    constexpr std::int64_t kHead = 24;
    std::array<std::uint8_t, kHead> head{};
    std::int64_t position = 0;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const auto size = load_le<std::uint64_t>(head.data() + 16);
        if (is(head.data(), kData)) {
            return size < kHead ? std::nullopt : compare(file, position + kHead, size - kHead);
        }
        if (size < kHead || size > static_cast<std::uint64_t>(file.size() - position)) {
            return std::nullopt;
        }
        position += static_cast<std::int64_t>(size);
    }
    return std::nullopt;
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

}  // namespace

std::optional<WavSize> find_cut_sound(AVFormatContext& context, std::int64_t size) {
    if (size <= 0 || context.pb == nullptr) {
        return std::nullopt;
    }
    const std::string_view format = context.iformat->name;
    if (format == "aiff") {
        return find_in_aiff({*context.pb, size});
    }
    if (format == "au") {
        return find_in_au({*context.pb, size});
    }
    if (format == "caf") {
        return find_in_caf({*context.pb, size});
    }
    if (format == "w64") {
        return find_in_w64({*context.pb, size});
    }
    if (format == "asf" || format == "asf_o") {
        return find_in_asf({*context.pb, size});
    }
    return format == "voc" ? find_in_voc({*context.pb, size}) : std::nullopt;
}

}  // namespace spdl
