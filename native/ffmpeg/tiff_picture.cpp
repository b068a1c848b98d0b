#include "ffmpeg/tiff_picture.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>

#include "core/bounded_read.h"
#include "ffmpeg/tiff_description.h"
#include "ffmpeg/tiff_layout.h"
#include "ffmpeg/tiff_strips.h"

namespace spdl {
namespace {

// Returns the first directory below this one; 0 if there is none.
std::uint32_t sub_directory(const TiffDirectory& directory) {
    const std::vector<std::uint32_t> offsets = directory.integers(kSubDirectories);
    return offsets.empty() ? 0 : offsets.front();
}

// If a picture claims to be a smaller version, FFmpeg goes on to the first one below it. `directories` are the
// directory that it starts with and those that it has passed.
std::vector<TiffDirectory> decoded_directories(std::vector<TiffDirectory> directories, bool below) {
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
    return directories;
}

class DirectoryWriter {
  public:
    explicit DirectoryWriter(bool little_endian) : little_endian_(little_endian) {}

    void add(Bytes entry) {
        entries_.insert(entries_.end(), entry.begin(), entry.end());
        ++count_;
    }

    void add(TiffTag tag, std::uint32_t value) {
        constexpr std::uint16_t kLong = 4;
        append(entries_, tag, 2);
        append(entries_, kLong, 2);
        append(entries_, 1, 4);
        append(entries_, value, 4);
        ++count_;
    }

    [[nodiscard]] std::vector<std::uint8_t> directory() const {
        std::vector<std::uint8_t> bytes;
        append(bytes, count_, 2);
        bytes.insert(bytes.end(), entries_.begin(), entries_.end());
        append(bytes, 0, 4);  // Nothing follows.
        return bytes;
    }

  private:
    void append(std::vector<std::uint8_t>& to, std::uint32_t value, unsigned size) const {
        for (unsigned i = 0; i < size; ++i) {
            to.push_back(static_cast<std::uint8_t>(value >> 8 * (little_endian_ ? i : size - 1 - i)));
        }
    }

    std::vector<std::uint8_t> entries_;
    std::uint32_t count_ = 0;
    bool little_endian_;
};

// Returns the size of a value of a type; 0 if there is no such type.
std::size_t size_of_type(std::uint32_t type) {
    constexpr std::size_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4};
    return type < std::size(kSizes) ? kSizes[type] : 0;
}

// An entry of a directory, as it is stored.
class StoredEntry {
  public:
    StoredEntry(Bytes entry, bool little_endian)
        : type_(read_integer(entry, 2, 2, little_endian)),
          count_(read_integer(entry, 4, 4, little_endian)),
          at_(read_integer(entry, 8, 4, little_endian)) {}

    // Returns whether its values are in a file of that size.
    [[nodiscard]] bool lies_within(std::size_t size) const {
        const std::size_t bytes = size_of_type(type_) * count_;
        return bytes <= 4 || (at_ <= size && bytes <= size - at_);
    }

    // Returns whether it is of the type that its tag wants, for texts and resolutions.
    [[nodiscard]] bool suits(TiffTag tag) const {
        constexpr std::uint32_t kText = 2;
        constexpr std::uint32_t kRational = 5;
        const bool resolution = tag == kXResolution || tag == kYResolution;
        return resolution ? type_ == kRational && count_ == 1 : type_ == kText;
    }

  private:
    std::uint32_t type_;
    std::size_t count_;
    std::size_t at_;
};

// Returns whether it says nothing about pixels.
bool is_note(TiffTag tag) {
    constexpr TiffTag kNotes[] = {kDocumentName, kImageDescription, kMake, kModel,  kXResolution,  kYResolution,
                                  kPageName,     kSoftware,         kDate, kArtist, kHostComputer, kCopyright};
    return std::ranges::find(kNotes, tag) != std::end(kNotes);
}

// Returns whether FFmpeg is to get an entry. Notes that are damaged are left out. `size` is the file's.
bool is_kept(TiffTag tag, Bytes stored, std::uint32_t compression, std::size_t size, bool little_endian) {
    if (stored.empty()) {
        return false;
    }
    const StoredEntry entry(stored, little_endian);
    if (is_note(tag)) {
        return entry.suits(tag) && entry.lies_within(size);
    }
    if (!entry.lies_within(size)) {
        fail_tiff("the values of its directory's entry " + std::to_string(tag) + " lie beyond its end");
    }
    // FFmpeg would undo differences where other readers know of none.
    return tag != kPredictor || compression == kLzw || is_deflate(compression);
}

// Writes a directory of the picture alone. FFmpeg stops at an entry that it does not know, if it is to stop at damage.
std::vector<std::uint8_t> own_directory(const TiffDescription& picture, std::size_t size, bool little_endian) {
    constexpr TiffTag kKept[] = {
        kWidth,
        kHeight,
        kBitsPerSample,
        kCompression,
        kPhotometric,
        kFillOrder,
        kDocumentName,
        kImageDescription,
        kMake,
        kModel,
        kStripOffsets,
        kSamplesPerPixel,
        kRowsPerStrip,
        kStripSizes,
        kXResolution,
        kYResolution,
        kPlanarConfiguration,
        kPageName,
        kFax3Options,
        kFax4Options,
        kSoftware,
        kDate,
        kArtist,
        kHostComputer,
        kPredictor,
        kColors,
        kSubsampling,
        kCopyright,
    };
    const std::uint32_t compression = picture.integer(kCompression, kNone);
    DirectoryWriter writer(little_endian);
    for (const TiffTag tag : kKept) {
        const Bytes entry = picture.directory().stored(tag);
        if (tag == kRowsPerStrip && entry.empty()) {
            writer.add(tag, picture.integer(kHeight, 0));  // FFmpeg 7 wants it.
        } else if (is_kept(tag, entry, compression, size, little_endian)) {
            writer.add(entry);
        }
    }
    return writer.directory();
}

// FFmpeg may take any of the pages, and whatever lies below them.
void check_pages(Bytes tiff, const TiffDirectory& first, std::int64_t max_pixels) {
    constexpr std::size_t kMostPages = 1000;
    std::vector<TiffDirectory> pages{first};
    while (true) {
        for (const bool below : {false, true}) {
            const TiffDescription picture(decoded_directories(pages, below));
            if (is_deflated(picture) && !picture.has(kTileWidth)) {
                check_strips(tiff, picture, max_pixels);
            }
        }
        const std::uint32_t next = pages.back().next();
        if (next == 0) {
            return;
        }
        if (pages.size() == kMostPages) {
            fail_tiff("it has more than " + std::to_string(kMostPages) + " pages");
        }
        pages.push_back(first.at(next));
    }
}

}  // namespace

TiffPicture find_tiff_picture(Bytes tiff, const DecodeOptions& options) {
    const std::optional<TiffDirectory> first = TiffDirectory::first(tiff);
    if (!first) {
        return {};  // FFmpeg reports it.
    }
    if (std::ranges::any_of(options.decoder_options, [](const auto& pair) {
            return pair.first == "page" || pair.first == "thumbnail" || pair.first == "subimage";
        })) {
        check_pages(tiff, *first, options.max_pixels);
        return {};
    }
    const TiffDescription picture({decoded_directories({*first}, false).back()});
    if (picture.directory().truncated()) {
        fail_tiff("it ends before its directory does");
    }
    check_layout(tiff, picture);
    check_strips(tiff, picture, options.max_pixels);
    TiffPicture found;
    found.little_endian = tiff[0] == 'I';
    found.directory_at = static_cast<std::uint32_t>(tiff.size() + tiff.size() % 2);
    found.directory = own_directory(picture, tiff.size(), found.little_endian);
    found.video_levels = has_video_levels(picture);
    found.divide_by_alpha = is_multiplied_by_alpha(picture);
    return found;
}

}  // namespace spdl
