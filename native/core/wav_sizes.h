#pragma once

#include <cstdint>

namespace spdl {

// What the header of a WAV file says of its sizes, and those that it has, in bytes.
struct WavSizes {
    std::uint64_t riff = 0;     // Of the file without the first 8 bytes, as it says.
    std::uint64_t data = 0;     // Of the sound, as it says.
    std::uint64_t file = 0;     // Of the file.
    std::uint64_t place = 0;    // Where the file says the size of the sound in 64 bits; 0 if it does not.
    std::uint64_t present = 0;  // From the beginning of the sound to the end of the file.
};

// Returns whether a size is that of a program which writes to a pipe and cannot know it: 0, or about the largest of 31,
// 32 or 64 bits, some of them less what is in front of the sound.
inline bool is_open_size(std::uint64_t size) {
    constexpr std::uint64_t kOpenOf31 = 0x7FFFF000;
    constexpr std::uint64_t kBitsOf31 = 0x7FFFFFFF;
    constexpr std::uint64_t kOpenOf32 = 0xFFFFF000;
    constexpr std::uint64_t kBitsOf32 = 0xFFFFFFFF;
    constexpr std::uint64_t kBitsOf63 = 0x7FFFFFFFFFFFFFFF;
    return size == 0 || (size >= kOpenOf31 && size <= kBitsOf31) || (size >= kOpenOf32 && size <= kBitsOf32) ||
           size >= kBitsOf63;
}

// Returns how many bytes of sound a file has to have: more than there are if it was cut off.
inline std::uint64_t bytes_of_sound(const WavSizes& sizes) {
    constexpr std::uint64_t kBeforeSize = 8;
    // Whoever knew the size of the file knew that there is no sound.
    if (sizes.data <= sizes.present && (sizes.data > 0 || sizes.riff + kBeforeSize == sizes.file)) {
        return sizes.data;
    }
    // Some programs count the header as sound. Such a file has the size that it says.
    const bool counts_header = sizes.data == sizes.file || sizes.data + kBeforeSize == sizes.file;
    return is_open_size(sizes.data) || (counts_header && sizes.riff <= sizes.file) ? sizes.present : sizes.data;
}

}  // namespace spdl
