#include "av/plain_wav.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace spdl {
namespace {

// FFmpeg looks at 32 packets of 4 KiB; the header is in front of them.
constexpr std::size_t kLooked = std::size_t{33} << 12;

using Word = std::array<std::uint8_t, 4>;

// The synchronisation words of DTS (ETSI TS 102 114): of 16 and of 14 bits, in both orders of bytes. Then those of
// S/PDIF (IEC 61937).
constexpr std::array<Word, 6> kWords{{{0x7F, 0xFE, 0x80, 0x01},
                                      {0xFE, 0x7F, 0x01, 0x80},
                                      {0x1F, 0xFF, 0xE8, 0x00},
                                      {0xFF, 0x1F, 0x00, 0xE8},
                                      {0x72, 0xF8, 0x1F, 0x4E},
                                      {0xF8, 0x72, 0x4E, 0x1F}}};

// Returns the first bytes, of which there are fewer in a shorter file.
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

}  // namespace

bool is_plain_wav(ByteSource& source) {
    return source.size() != ByteSource::kUnknown && is_wav(source) && !has_code_word(read_beginning(source, kLooked));
}

}  // namespace spdl
