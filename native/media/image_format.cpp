#include "media/image_format.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "core/files.h"

namespace spdl {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kRead =
    "JPEG, PNG, GIF, BMP, TIFF, WebP, AVIF, HEIF, JPEG 2000, QOI, PBM, PGM and PPM are read";

// In the order of ImageFormat.
constexpr std::string_view kNames[] = {"",     "JPEG", "PNG",       "GIF", "BMP", "TIFF", "WebP",
                                       "AVIF", "HEIF", "JPEG 2000", "QOI", "PBM", "PGM",  "PPM"};
static_assert(std::size(kNames) == kImageFormats);

bool has(Bytes bytes, std::size_t at, std::string_view text) {
    return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

struct Signature {
    std::string_view text;
    ImageFormat format;
};

constexpr Signature kSignatures[] = {
    {"\xff\xd8\xff"sv, ImageFormat::kJpeg},
    {"\x89PNG\r\n\x1a\n"sv, ImageFormat::kPng},
    {"GIF87a"sv, ImageFormat::kGif},
    {"GIF89a"sv, ImageFormat::kGif},
    {"BM"sv, ImageFormat::kBmp},
    {"II*\0"sv, ImageFormat::kTiff},
    {"MM\0*"sv, ImageFormat::kTiff},
    {"II+\0"sv, ImageFormat::kTiff},
    {"MM\0+"sv, ImageFormat::kTiff},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, ImageFormat::kJpeg2000},
    {"\xff\x4f\xff\x51"sv, ImageFormat::kJpeg2000},
    {"qoif"sv, ImageFormat::kQoi},
};

struct OtherSignature {
    std::size_t at;
    std::string_view text;
    std::string_view kind;
};

// Formats that occur among images, but are not read.
constexpr OtherSignature kOthers[] = {
    {0, "8BPS"sv, "a document of Photoshop"},
    {0, "\0\0\1\0"sv, "an icon (ICO)"},
    {0, "icns"sv, "an icon (ICNS)"},
    {0, "DDS "sv, "a DirectDraw surface"},
    {0, "BLP1"sv, "a texture (BLP)"},
    {0, "BLP2"sv, "a texture (BLP)"},
    {0, "#define"sv, "an X bitmap"},
    {0, "/* XPM */"sv, "an X pixmap"},
    {0, "PF\n"sv, "a map of floats (PFM)"},
    {0, "Pf\n"sv, "a map of floats (PFM)"},
    {0, "P7\n"sv, "a PAM"},
    {0, "P7 332"sv, "a thumbnail of xv"},
    {0, "\x0a\x05\x01"sv, "a PCX"},
    {0, "\x01\xda"sv, "an SGI image"},
    {0, "\x59\xa6\x6a\x95"sv, "a Sun raster"},
    {0, "v/1\x01"sv, "an OpenEXR image"},
    {0, "#?RADIANCE"sv, "a Radiance HDR image"},
    {0, "SIMPLE  ="sv, "a FITS image"},
    {0, "SDPX"sv, "a DPX image"},
    {0, "XPDS"sv, "a DPX image"},
    {0, "\xff\x0a"sv, "a JPEG XL"},
    {4, "JXL \r\n\x87\n"sv, "a JPEG XL"},
    {0, "II\xbc\x01"sv, "a JPEG XR"},
    {0, "%PDF"sv, "a PDF"},
    {0, "%!PS"sv, "PostScript"},
    {0, "<svg"sv, "an SVG"},
    {0, "\x1a\x45\xdf\xa3"sv, "a video (Matroska or WebM)"},
    {4, "ftyp"sv, "a video (MP4 or QuickTime)"},
    {8, "AVI "sv, "a video (AVI)"},
    {0, "\x1f\x8b"sv, "compressed by gzip"},
    {0, "PK\x03\x04"sv, "a zip archive"},
    {2048, "PCD_IPI"sv, "a Photo CD image"},
};

// Files of ISO's base media format say in their first box what they can be read as.
ImageFormat by_brands(Bytes bytes) {
    constexpr std::string_view kAvif[] = {"avif", "avis"};
    constexpr std::string_view kHeif[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"};
    constexpr std::size_t kBrands = 8;
    constexpr std::size_t kVersion = 12;
    const std::size_t size = std::min<std::size_t>(read_integer(bytes, 0, 4, false), bytes.size());
    ImageFormat found = ImageFormat::kUnknown;
    for (std::size_t at = kBrands; at + 4 <= size; at += 4) {
        const auto is = [&](std::string_view brand) { return at != kVersion && has(bytes, at, brand); };
        if (std::ranges::any_of(kAvif, is)) {
            return ImageFormat::kAvif;
        }
        if (std::ranges::any_of(kHeif, is)) {
            found = ImageFormat::kHeif;
        }
    }
    return found;
}

bool is_space(std::uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// "P", a digit, and whitespace or a comment.
ImageFormat by_digit(Bytes bytes) {
    if (bytes.size() < 3 || bytes[0] != 'P' || !(is_space(bytes[2]) || bytes[2] == '#')) {
        return ImageFormat::kUnknown;
    }
    switch (bytes[1]) {
        case '1':
        case '4':
            return ImageFormat::kPbm;
        case '2':
        case '5':
            return ImageFormat::kPgm;
        case '3':
        case '6':
            return ImageFormat::kPpm;
        default:
            return ImageFormat::kUnknown;
    }
}

}  // namespace

ImageFormat image_format(Bytes bytes) noexcept {
    for (const auto& [text, format] : kSignatures) {
        if (has(bytes, 0, text)) {
            return format;
        }
    }
    if (has(bytes, 0, "RIFF") && has(bytes, 8, "WEBP")) {
        return ImageFormat::kWebp;
    }
    if (has(bytes, 4, "ftyp")) {
        return by_brands(bytes);
    }
    return by_digit(bytes);
}

std::string_view format_name(ImageFormat format) noexcept {
    return kNames[static_cast<std::size_t>(format)];
}

std::string describe_unknown_format(Bytes bytes) {
    constexpr std::size_t kShown = 12;
    if (bytes.empty()) {
        return "there are no bytes in it";
    }
    if (const char* const said = describe_unfetched(bytes)) {
        return said;
    }
    const auto* const other =
        std::ranges::find_if(kOthers, [&](const auto& kind) { return has(bytes, kind.at, kind.text); });
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kShown));
    const std::string what = other != std::end(kOthers)
                                 ? "it seems to be " + std::string(other->kind)
                                 : "it begins with " + quoted(start, true) + ", as no known image does";
    return what + "; " + std::string(kRead) +
           ". Convert it to one of these, or name a demuxer of FFmpeg's with demux_config(format=...)";
}

}  // namespace spdl
