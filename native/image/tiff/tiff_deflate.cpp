#include "image/tiff/tiff_deflate.h"

#include <libdeflate.h>

#include "core/decompressor.h"

namespace spdl {
namespace {

// Every sample is stored as its difference from that of the pixel before.
template <std::size_t kSamples, typename Sample>
void add_up(Sample* samples, std::size_t count) {
    Sample sums[kSamples] = {};
    for (std::size_t at = 0; at + kSamples <= count; at += kSamples) {
        for (std::size_t i = 0; i < kSamples; ++i) {
            sums[i] = static_cast<Sample>(sums[i] + samples[at + i]);
            samples[at + i] = sums[i];
        }
    }
}

template <typename Sample>
void add_up_rows(std::uint8_t* rows, std::size_t row_bytes, std::size_t row_count, std::size_t samples) {
    constexpr auto kAddUp = [](std::size_t number) {
        return number == 1   ? add_up<1, Sample>
               : number == 2 ? add_up<2, Sample>
               : number == 3 ? add_up<3, Sample>
                             : add_up<4, Sample>;
    };
    for (std::size_t y = 0; y < row_count; ++y, rows += row_bytes) {
        kAddUp(samples)(reinterpret_cast<Sample*>(rows), row_bytes / sizeof(Sample));
    }
}

void swap_bytes(std::uint8_t* samples, std::size_t bytes, int bits) {
    switch (bits) {
        case 16:
            return TIFFSwabArrayOfShort(reinterpret_cast<std::uint16_t*>(samples), static_cast<tmsize_t>(bytes / 2));
        case 32:
            return TIFFSwabArrayOfLong(reinterpret_cast<std::uint32_t*>(samples), static_cast<tmsize_t>(bytes / 4));
        case 64:
            return TIFFSwabArrayOfLong8(reinterpret_cast<std::uint64_t*>(samples), static_cast<tmsize_t>(bytes / 8));
        default:
            return;
    }
}

}  // namespace

bool inflate_tiff(const TiffFile& file, const TiffPicture& picture, std::uint32_t number, std::size_t row_bytes,
                  std::size_t row_count, std::uint8_t* to) {
    constexpr std::size_t kMostSamples = 4;
    const std::size_t samples = picture.planar ? 1 : static_cast<std::size_t>(picture.samples);
    if (!picture.deflated) {
        return false;
    }
    const auto predictor = file.value<std::uint16_t>(TIFFTAG_PREDICTOR, PREDICTOR_NONE);
    const bool added =
        predictor == PREDICTOR_HORIZONTAL && (picture.bits == 8 || picture.bits == 16) && samples <= kMostSamples;
    if ((predictor != PREDICTOR_NONE && !added) ||
        file.value<std::uint16_t>(TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) != FILLORDER_MSB2LSB) {
        return false;
    }
    const std::uint64_t begin = TIFFGetStrileOffset(file.get(), number);
    const std::uint64_t size = TIFFGetStrileByteCount(file.get(), number);
    const Bytes bytes = file.bytes();
    if (size == 0 || begin > bytes.size() || size > bytes.size() - begin) {
        return false;
    }
    const std::size_t room = row_bytes * row_count;
    if (libdeflate_zlib_decompress(decompressor(), bytes.data() + begin, size, to, room, nullptr) !=
        LIBDEFLATE_SUCCESS) {
        return false;
    }
    if (TIFFIsByteSwapped(file.get()) != 0) {
        swap_bytes(to, room, picture.bits);
    }
    if (added && picture.bits == 8) {
        add_up_rows<std::uint8_t>(to, row_bytes, row_count, samples);
    } else if (added) {
        add_up_rows<std::uint16_t>(to, row_bytes, row_count, samples);
    }
    return true;
}

}  // namespace spdl
