#include "av/promised_sound.h"

#include <array>
#include <limits>
#include <string_view>

#include "av/file_peek.h"
#include "core/file_boxes.h"
#include "core/little_endian.h"

namespace spdl {
namespace {

// Files have a handful of parts, but those of Creative Voice one for each packet.
constexpr int kMostParts = 100'000;

std::optional<WavSize> compare(const Peek& file, std::int64_t begin, std::uint64_t promised) {
    const std::int64_t present = file.size() - begin;
    if (present < 0 || promised > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
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

// CAF has chunks. That of the sound may say -1, which is up to the end; otherwise compare() finds it too large.
std::optional<WavSize> find_in_caf(Peek file) {
    std::array<std::uint8_t, 12> head{};
    std::int64_t position = 8;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const std::uint64_t size = BoxReader(Bytes(head).subspan(4)).take(8);
        position += static_cast<std::int64_t>(head.size());
        if (is(head.data(), "data")) {
            return compare(file, position, size);
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

// Creative Voice has blocks that begin with a type and a size.
std::optional<WavSize> find_in_voc(Peek file) {
    std::array<std::uint8_t, 22> head{};
    if (!file.read(0, head)) {
        return std::nullopt;
    }
    std::array<std::uint8_t, 4> block{};
    auto position = static_cast<std::int64_t>(load_le<std::uint16_t>(head.data() + 20));
    for (int i = 0; i < kMostParts && file.read(position, block) && block[0] != 0; ++i) {
        const std::uint64_t size = load_le<std::uint32_t>(block.data()) >> 8;
        position += static_cast<std::int64_t>(block.size());
        if (const auto cut = compare(file, position, size)) {
            return cut;
        }
        position += static_cast<std::int64_t>(size);
    }
    return std::nullopt;
}

}  // namespace

std::optional<WavSize> find_cut_sound(AVFormatContext& context, std::int64_t size) {
    if (size <= 0 || context.pb == nullptr) {
        return std::nullopt;
    }
    const std::string_view format = context.iformat->name;
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
