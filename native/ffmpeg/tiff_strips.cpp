#include "ffmpeg/tiff_strips.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/bounded_read.h"
#include "core/decompressor.h"
#include "core/geometry.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "core/tiff_directory.h"

namespace spdl {
namespace {

// TIFF 6.0 (Adobe, 1992) and its supplements.
enum Tag : std::uint16_t {
    kNewSubfileType = 254,
    kWidth = 256,
    kHeight = 257,
    kBitsPerSample = 258,
    kCompression = 259,
    kPhotometric = 262,
    kFillOrder = 266,
    kStripOffsets = 273,
    kSamplesPerPixel = 277,
    kRowsPerStrip = 278,
    kStripSizes = 279,
    kPlanarConfiguration = 284,
    kTileWidth = 322,
    kSubDirectories = 330,
    kSubsampling = 530,
    kDngVersion = 50706,
};

enum Compression : std::uint32_t {
    kNone = 1,
    kOldJpeg = 6,
    kJpeg = 7,
    kAdobeDeflate = 8,
    kDeflate = 32946,
    kPackBits = 32773,
    kLzma = 34925,
};

constexpr std::uint32_t kPlanar = 2;
constexpr std::uint32_t kYcbcr = 6;

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the image as tiff: " + what);
}

constexpr std::size_t divide_up(std::size_t value, std::size_t by) {
    return (value + by - 1) / by;
}

// FFmpeg's knowledge of a picture: its directory and, for some tags, the directories that FFmpeg read before.
class Description {
  public:
    explicit Description(std::vector<TiffDirectory> directories) : directories_(std::move(directories)) {}

    [[nodiscard]] bool has(Tag tag) const { return directories_.back().has(tag); }

    // Throws if it is not a list of integers: FFmpeg accepts other types, too.
    [[nodiscard]] std::vector<std::uint32_t> integers(Tag tag) const { return checked(directories_.back(), tag); }

    [[nodiscard]] std::uint32_t integer(Tag tag, std::uint32_t otherwise) const {
        return first_of(integers(tag), otherwise);
    }

    // Returns the integers of an entry that is kept from one directory to the next.
    [[nodiscard]] std::vector<std::uint32_t> kept(Tag tag) const {
        const auto found = std::find_if(directories_.rbegin(), directories_.rend(),
                                        [&](const TiffDirectory& directory) { return directory.has(tag); });
        return found == directories_.rend() ? std::vector<std::uint32_t>() : checked(*found, tag);
    }

    [[nodiscard]] std::uint32_t kept(Tag tag, std::uint32_t otherwise) const { return first_of(kept(tag), otherwise); }

  private:
    static std::vector<std::uint32_t> checked(const TiffDirectory& directory, Tag tag) {
        std::vector<std::uint32_t> values = directory.integers(tag);
        if (values.empty() && directory.has(tag)) {
            fail("its directory's entry " + std::to_string(tag) + " is damaged, or not of integers");
        }
        return values;
    }

    static std::uint32_t first_of(const std::vector<std::uint32_t>& values, std::uint32_t otherwise) {
        return values.empty() ? otherwise : values.front();
    }

    std::vector<TiffDirectory> directories_;
};

struct Strips {
    std::size_t rows;           // Of each strip but the last.
    std::size_t row_bytes;      // Of what is stored for so many rows at once:
    std::size_t rows_together;  // one, or those that share chroma samples.
    std::size_t planes;

    [[nodiscard]] std::size_t bytes(std::size_t of_rows) const { return divide_up(of_rows, rows_together) * row_bytes; }
};

Strips strips_of(const Description& picture, Size size) {
    const auto width = static_cast<std::size_t>(size.width);
    const auto height = static_cast<std::size_t>(size.height);
    std::vector<std::uint32_t> bits = picture.integers(kBitsPerSample);
    if (bits.empty()) {
        bits = {1};
    }
    const std::size_t samples = picture.integer(kSamplesPerPixel, static_cast<std::uint32_t>(bits.size()));
    const std::size_t pixel_bits =
        bits.size() == 1 ? bits.front() * samples : std::reduce(bits.begin(), bits.end(), std::size_t{0});
    // FFmpeg has no format with more.
    constexpr std::size_t kMostSamples = 5;
    constexpr std::size_t kMostBits = 128;
    if (samples == 0 || samples > kMostSamples || pixel_bits == 0 || pixel_bits > kMostBits) {
        fail("its pixels are said to have " + std::to_string(samples) + " samples of " + std::to_string(pixel_bits) +
             " bits in all");
    }
    const std::uint32_t rows = picture.kept(kRowsPerStrip, 0);
    Strips strips{rows == 0 ? height : std::min<std::size_t>(rows, height), divide_up(width * pixel_bits, 8), 1, 1};
    if (picture.kept(kPlanarConfiguration, 1) == kPlanar) {
        strips.planes = samples;
        strips.row_bytes /= samples;
    } else if (picture.integer(kPhotometric, 0) == kYcbcr && samples == 3) {
        // If a file does not say, the specification means two by two, and FFmpeg none.
        std::vector<std::uint32_t> shared = picture.kept(kSubsampling);
        if (shared.empty()) {
            shared = {1, 1};
        }
        constexpr std::uint32_t kMostShared = 4;
        if (shared.size() != 2 || std::ranges::any_of(shared, [](auto by) { return by == 0 || by > kMostShared; })) {
            fail("its chroma is subsampled in a way that is not known");
        }
        strips.row_bytes = divide_up(width, shared[0]) * (std::size_t{shared[0]} * shared[1] + 2);
        strips.rows_together = shared[1];
    }
    return strips;
}

bool stores_lowest_bit_first(const Description& picture) {
    return picture.integer(kFillOrder, 1) == 2;
}

void turn_bits(Bytes bytes, AlignedBuffer& into) {
    static constexpr auto kTurned = [] {
        std::array<std::uint8_t, 256> table{};
        for (unsigned value = 0; value < table.size(); ++value) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                table[value] = static_cast<std::uint8_t>(table[value] | ((value >> bit & 1U) << (7 - bit)));
            }
        }
        return table;
    }();
    into.reserve(bytes.size());
    std::ranges::transform(bytes, into.data(), [](std::uint8_t byte) { return kTurned[byte]; });
}

// Inflates zlib streams to find out how long they are.
class Inflater {
  public:
    // Returns whether there are `wanted` bytes; nothing if this is no such stream, or a damaged one.
    std::optional<bool> holds(Bytes stream, std::size_t wanted) {
        constexpr std::size_t kHeader = 2;
        constexpr std::size_t kChecksum = 4;
        if (stream.size() <= kHeader) {
            return false;
        }
        const Bytes deflated = stream.subspan(kHeader);
        if (wanted / kMaxRatio > deflated.size()) {
            return false;
        }
        // libdeflate reports that there is no room left as soon as it has read how much comes: a stored block, or
        // matches, for which it takes up to eight missing bytes for zeros.
        constexpr std::size_t kToCome = 65535 + 32 * 258;
        result_.reserve(wanted + kToCome);
        std::size_t used = 0;
        std::size_t made = 0;
        switch (libdeflate_deflate_decompress_ex(decompressor(), deflated.data(), deflated.size(), result_.data(),
                                                 wanted + kToCome, &used, &made)) {
            case LIBDEFLATE_SUCCESS:
                // zlib accepts a file that ends before its checksum does.
                if (deflated.size() - used >= kChecksum &&
                    libdeflate_adler32(1, result_.data(), made) != read_integer(deflated, used, kChecksum, false)) {
                    return std::nullopt;
                }
                return made >= wanted;
            case LIBDEFLATE_INSUFFICIENT_SPACE:  // Some writers fill up the last strip.
                return true;
            default:
                return std::nullopt;
        }
    }

  private:
    // The most that deflate makes of a byte: a match of 258 bytes takes at least two bits.
    static constexpr std::size_t kMaxRatio = 1032;

    AlignedBuffer result_;
};

// FFmpeg does not notice strips that end early.
void check_deflated(Bytes tiff, const Description& picture, std::int64_t max_pixels) {
    const auto side = [&](Tag tag) {
        return static_cast<int>(std::min<std::uint32_t>(picture.integer(tag, 0), 0x7fffffff));
    };
    const Size size{side(kWidth), side(kHeight)};
    check_source_size(size, "cannot decode the image: its size", max_pixels);
    const Strips strips = strips_of(picture, size);
    const auto height = static_cast<std::size_t>(size.height);
    const std::size_t of_plane = divide_up(height, strips.rows);
    const std::size_t count = of_plane * strips.planes;
    const std::vector<std::uint32_t> offsets = picture.integers(kStripOffsets);
    std::vector<std::uint32_t> sizes = picture.integers(kStripSizes);
    if (count == 1 && offsets.size() == 1 && (sizes.empty() || sizes.front() == 0)) {
        sizes = {static_cast<std::uint32_t>(tiff.size() - std::min<std::size_t>(offsets.front(), tiff.size()))};
    }
    if (offsets.size() < count || sizes.size() < count) {
        fail("its directory has " + std::to_string(std::min(offsets.size(), sizes.size())) + " of the " +
             std::to_string(count) + " strips that its " + std::to_string(height) + " rows are said to be in");
    }
    const bool turned = stores_lowest_bit_first(picture);
    Inflater inflater;
    AlignedBuffer turned_bytes;
    std::size_t total = 0;
    for (std::size_t strip = 0; strip < count; ++strip) {
        const std::string name = "strip " + std::to_string(strip + 1) + " of " + std::to_string(count);
        if (strip % of_plane == 0) {
            total = 0;
        }
        total += sizes[strip];
        if (offsets[strip] > tiff.size() || sizes[strip] > tiff.size() - offsets[strip] || total > tiff.size()) {
            fail(name + " is said to have " + std::to_string(sizes[strip]) + " bytes from byte " +
                 std::to_string(offsets[strip]) + " on, of a file of " + std::to_string(tiff.size()));
        }
        Bytes stream = tiff.subspan(offsets[strip], sizes[strip]);
        if (turned) {
            turn_bits(stream, turned_bytes);
            stream = {turned_bytes.data(), stream.size()};
        }
        const std::size_t wanted = strips.bytes(std::min(strips.rows, height - strip % of_plane * strips.rows));
        const std::optional<bool> whole = inflater.holds(stream, wanted);
        if (!whole) {
            fail(name + " is damaged, or ends before it has inflated");
        }
        if (!*whole) {
            fail(name + " inflates to less than the " + std::to_string(wanted) + " bytes of its rows");
        }
    }
}

bool is_deflated(const Description& picture) {
    const std::uint32_t compression = picture.integer(kCompression, kNone);
    return !picture.has(kTileWidth) && (compression == kAdobeDeflate || compression == kDeflate);
}

void check_read(const Description& picture) {
    const std::uint32_t compression = picture.integer(kCompression, kNone);
    const std::vector<std::uint32_t> bits = picture.integers(kBitsPerSample);
    // FFmpeg reads raw photos in tiles and in JPEG.
    const bool raw_photo = !picture.kept(kDngVersion).empty();
    const char* unread = nullptr;
    if ((compression == kOldJpeg || compression == kJpeg) && !raw_photo) {
        unread = "compressed as JPEG, which FFmpeg does not read";
    } else if (picture.has(kTileWidth) && !raw_photo) {
        unread = "stored in tiles, which FFmpeg does not read";
    } else if (compression == kLzma) {
        unread = "compressed with LZMA, of which FFmpeg takes no notice where it ends early";
    } else if ((compression == kNone || compression == kPackBits) && bits.size() == 1 &&
               (bits.front() == 2 || bits.front() == 4) && stores_lowest_bit_first(picture)) {
        unread = "of 2 or 4 bits, the lowest of a byte first, which FFmpeg does not read";
    }
    if (unread != nullptr) {
        fail(std::string("its pixels are ") + unread +
             ": store it as a TIFF of strips, without compression or with LZW or deflate, or as a PNG");
    }
}

// Returns the first directory below this one; 0 if there is none.
std::uint32_t sub_directory(const TiffDirectory& directory) {
    const std::vector<std::uint32_t> offsets = directory.integers(kSubDirectories);
    return offsets.empty() ? 0 : offsets.front();
}

// If a picture claims to be a smaller version, FFmpeg goes on to the first one below it. `directories` are the
// directory that it starts with and those that it has passed.
Description decoded_picture(std::vector<TiffDirectory> directories, bool below) {
    constexpr int kMostLevels = 100;
    std::uint32_t last = 0;
    for (int level = 0; level < kMostLevels; ++level) {
        const TiffDirectory directory = directories.back();
        const std::uint32_t next = sub_directory(directory);
        if (next <= last || !(below || directory.integer(kNewSubfileType).value_or(0) != 0)) {
            break;
        }
        last = next;
        directories.push_back(directory.at(next));
    }
    return Description(std::move(directories));
}

}  // namespace

void check_tiff(Bytes tiff, const DecodeOptions& options) {
    const std::optional<TiffDirectory> first = TiffDirectory::first(tiff);
    if (!first) {
        return;  // FFmpeg reports it.
    }
    const auto asked_for = [&](const char* option) {
        return std::ranges::any_of(options.decoder_options, [&](const auto& pair) { return pair.first == option; });
    };
    if (!asked_for("page") && !asked_for("thumbnail")) {
        const Description picture = decoded_picture({*first}, asked_for("subimage"));
        check_read(picture);
        if (is_deflated(picture)) {
            check_deflated(tiff, picture, options.max_pixels);
        }
        return;
    }
    // FFmpeg may take any of them.
    constexpr std::size_t kMostPages = 1000;
    std::vector<TiffDirectory> pages{*first};
    while (true) {
        for (const bool below : {false, true}) {
            const Description picture = decoded_picture(pages, below);
            if (is_deflated(picture)) {
                check_deflated(tiff, picture, options.max_pixels);
            }
        }
        const std::uint32_t next = pages.back().next();
        if (next == 0) {
            return;
        }
        if (pages.size() == kMostPages) {
            fail("it has more than " + std::to_string(kMostPages) + " pages");
        }
        pages.push_back(first->at(next));
    }
}

}  // namespace spdl
