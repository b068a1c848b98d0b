#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tiff_directory.h"

namespace spdl {

// TIFF 6.0 (Adobe, 1992) and its supplements.
enum TiffTag : std::uint16_t {
    kNewSubfileType = 254,
    kWidth = 256,
    kHeight = 257,
    kBitsPerSample = 258,
    kCompression = 259,
    kPhotometric = 262,
    kFillOrder = 266,
    kDocumentName = 269,
    kImageDescription = 270,
    kMake = 271,
    kModel = 272,
    kStripOffsets = 273,
    kSamplesPerPixel = 277,
    kRowsPerStrip = 278,
    kStripSizes = 279,
    kXResolution = 282,
    kYResolution = 283,
    kPlanarConfiguration = 284,
    kPageName = 285,
    kFax3Options = 292,
    kFax4Options = 293,
    kSoftware = 305,
    kDate = 306,
    kArtist = 315,
    kHostComputer = 316,
    kPredictor = 317,
    kColors = 320,
    kTileWidth = 322,
    kSubDirectories = 330,
    kExtraSamples = 338,
    kSampleFormat = 339,
    kSubsampling = 530,
    kReferenceLevels = 532,
    kCopyright = 33432,
    kDngVersion = 50706,
};

enum TiffCompression : std::uint32_t {
    kNone = 1,
    kFaxRuns = 2,
    kFax3 = 3,
    kFax4 = 4,
    kLzw = 5,
    kOldJpeg = 6,
    kJpeg = 7,
    kAdobeDeflate = 8,
    kPackBits = 32773,
    kDeflate = 32946,
    kLzma = 34925,
};

enum TiffPhotometric : std::uint32_t {
    kMinIsWhite = 0,
    kMinIsBlack = 1,
    kRgb = 2,
    kPalette = 3,
    kCmyk = 5,
    kYcbcr = 6,
};

[[nodiscard]] constexpr bool is_deflate(std::uint32_t compression) {
    return compression == kAdobeDeflate || compression == kDeflate;
}

// Throws MediaError.
[[noreturn]] void fail_tiff(const std::string& what);

// A picture as FFmpeg knows it: its directory and, for some tags, the directories that FFmpeg read before.
class TiffDescription {
  public:
    explicit TiffDescription(std::vector<TiffDirectory> directories);

    [[nodiscard]] const TiffDirectory& directory() const { return directories_.back(); }
    [[nodiscard]] bool has(TiffTag tag) const { return directory().has(tag); }

    // Throws if it is not a list of integers: FFmpeg accepts other types, too.
    [[nodiscard]] std::vector<std::uint32_t> integers(TiffTag tag) const;
    [[nodiscard]] std::uint32_t integer(TiffTag tag, std::uint32_t otherwise) const;

    // Returns the integers of an entry that is kept from one directory to the next.
    [[nodiscard]] std::vector<std::uint32_t> kept(TiffTag tag) const;
    [[nodiscard]] std::uint32_t kept(TiffTag tag, std::uint32_t otherwise) const;

  private:
    std::vector<TiffDirectory> directories_;
};

// Returns whether the samples of each channel lie together.
[[nodiscard]] bool is_planar(const TiffDescription& picture);

}  // namespace spdl
