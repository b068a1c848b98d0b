#include "image/tiff/tiff_data.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace spdl {
namespace {

// Returns how many bytes of pixels a byte of data is at most.
double most_of_a_byte(std::uint16_t compression, double row_bytes) {
    switch (compression) {
        case COMPRESSION_NONE:
            return 1;
        case COMPRESSION_PACKBITS:
            return 64;  // Two bytes are up to 128.
        case COMPRESSION_CCITTRLE:
        case COMPRESSION_CCITTRLEW:
        case COMPRESSION_CCITTFAX3:
        case COMPRESSION_CCITTFAX4:
            return 8 * row_bytes;  // A bit may be a row that is as the one above it.
        case COMPRESSION_DEFLATE:
        case COMPRESSION_ADOBE_DEFLATE:
            return 1032;  // Two bits may repeat 258 bytes.
        case COMPRESSION_LZW:
            return 4096;
        default:
            return 1 << 16;  // A block of zstd's has four bytes or more, and is up to 128 KiB.
    }
}

}  // namespace

void check_tiff_data(const TiffFile& file, const TiffPicture& picture) {
    TIFF* const tiff = file.get();
    const bool tiled = TIFFIsTiled(tiff) != 0;
    const std::uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
    const std::uint64_t size = file.bytes().size();
    double held = 0;
    // Each that is there has an entry in the file.
    for (std::uint32_t i = 0; i < std::min<std::uint64_t>(count, size); ++i) {
        const std::uint64_t from = std::min(TIFFGetStrileOffset(tiff, i), size);
        held += static_cast<double>(std::min(TIFFGetStrileByteCount(tiff, i), size - from));
    }
    const auto rows = static_cast<std::uint32_t>(picture.size.height);
    const double needed =
        tiled ? static_cast<double>(TIFFTileSize64(tiff)) * count
              : static_cast<double>(TIFFVStripSize64(tiff, rows)) * (picture.planar ? picture.samples : 1);
    const auto compression = file.value<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (held * most_of_a_byte(compression, static_cast<double>(TIFFScanlineSize64(tiff))) < needed) {
        const std::string parts = tiled ? "tiles" : "strips";
        file.fail("its " + parts + " are missing, or end early: there are " +
                  std::to_string(static_cast<std::uint64_t>(held)) + " bytes in the file for " +
                  std::to_string(static_cast<std::uint64_t>(needed)) + " bytes of pixels");
    }
}

}  // namespace spdl
