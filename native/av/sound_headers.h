#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "av/file_end.h"
#include "core/bytes.h"
#include "core/files.h"
#include "ffmpeg/libav.h"

namespace spdl {

// The sizes of tags, or of their headers and footers.
constexpr std::int64_t kId3v1 = 128;
constexpr std::int64_t kEnhancedId3v1 = 227;  // Stands in front of the other.
constexpr std::int64_t kId3v2Head = 10;
constexpr std::int64_t kApeHead = 32;

inline bool begins(Bytes bytes, std::string_view name) {
    return bytes.size() >= name.size() && is(bytes.data(), name);
}

// Returns the bytes after the header, or in front of the footer, of an ID3v2 tag; nothing if it is not one.
std::optional<std::int64_t> id3v2_contents(Bytes head);

// Returns how much an APE tag has by its header or footer, with the footer.
std::int64_t ape_contents(Bytes head);

// Return how many bytes the tag has that begins here; 0 if none does.
std::int64_t id3v2_bytes(Bytes bytes);
std::int64_t tag_bytes(Bytes bytes);

// Returns how many bytes a frame of MPEG audio has by its header; 0 if it is not a header, or leaves the bit rate open.
std::size_t mpeg_audio_bytes(Bytes frame);

// Does the same for layer II (MP2) only.
std::size_t layer_two_bytes(Bytes frame);

// Returns the number of samples in a frame of FLAC; 0 if it is not a frame.
int flac_samples(Bytes frame);

// Returns how many samples a stream of FLAC has, as its own header says; 0 for others, and if it does not say.
std::int64_t total_samples(const AVCodecParameters& sound);

// Gives a packet of a FLAC file, which is a frame, the times that the frame says. FFmpeg makes up other ones for the
// last frame of a file that another one follows.
void tell_times(AVPacket& frame, const AVStream& stream);

// A source that looks at the pages of an Ogg file when they are read for the first time, from the beginning of the file
// on. FFmpeg's demuxer leaves out those whose checksums differ, and does not miss any by their numbers. Of other files
// it does nothing.
class OggPages final : public ByteSource {
  public:
    explicit OggPages(std::unique_ptr<ByteSource> source);

    [[nodiscard]] std::int64_t size() override { return size_; }
    std::size_t read(std::uint8_t* into, std::size_t size) override;
    void seek(std::int64_t position) override;

    // The first place at which pages of a stream are damaged or missing.
    struct Loss {
        std::int64_t from = 0;  // The page on which the first packet begins that is not whole, or that is after.
        std::int64_t page = 0;  // The next page that is whole.
    };

    // Returns what was lost of a stream before a packet that begins on a page; nothing if nothing was.
    [[nodiscard]] std::optional<Loss> loss(int stream, std::int64_t page) const;

    // Returns what was lost of a stream up to the end, which FFmpeg has found.
    [[nodiscard]] std::optional<Loss> loss(int stream);

  private:
    struct Chain {
        int stream = 0;
        std::uint32_t number = 0;
        std::int64_t place = 0;      // That of the last page, and of the page
        std::int64_t begun = 0;      // on which the last packet begins.
        bool is_header = false;      // Whether there was nothing but headers so far.
        bool is_incomplete = false;  // Whether the last packet goes on.
        bool ended = false;
    };

    void look(Bytes bytes);
    void look_at_held();
    [[nodiscard]] std::optional<std::size_t> page_bytes(Bytes bytes) const;
    void see(Bytes page, std::int64_t place);
    void finish();

    std::unique_ptr<ByteSource> source_;
    std::int64_t size_;
    std::int64_t position_ = 0;
    bool is_ogg_ = true;
    bool finished_ = false;
    bool begins_ = true;                     // Whether all pages of the file so far, or of a part of it, began streams.
    int num_streams_ = 0;                    // Of that part.
    std::int64_t looked_ = 0;                // How many bytes were looked at,
    std::vector<std::uint8_t> held_;         // and the last of them, which may belong to a page.
    std::int64_t damaged_ = -1;              // Where a page was damaged last,
    bool in_damage_ = false;                 // whether nothing followed that is whole,
    bool damaged_page_ = false;              // and whether it still looked like a page.
    std::map<std::uint32_t, Chain> chains_;  // By their serial numbers.
    std::map<int, Loss> losses_;
};

// Return what av_crc() does with the table of AV_CRC_16_ANSI or AV_CRC_32_IEEE, in a tenth of the time where the
// processor multiplies polynomials.
std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes);
std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes);

}  // namespace spdl
