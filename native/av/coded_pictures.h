#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "av/packets.h"
#include "core/bytes.h"
#include "ffmpeg/libav.h"
#include "image/heic/heif.h"

namespace spdl {

// Reads numbers that are not whole bytes, the highest bit first. Behind the end there are zeros.
class BitReader {
  public:
    explicit BitReader(Bytes bytes) : bytes_(bytes) {}

    // Returns the next bits as a number, at most 32.
    unsigned take(int count) {
        unsigned value = 0;
        for (int i = 0; i < count; ++i) {
            value = value << 1U | bit();
        }
        return value;
    }

    void skip(std::size_t count) { at_ += count; }

    // Returns the next Exp-Golomb code (ITU-T H.264, 9.1); nothing if it is too long for one.
    std::optional<unsigned> exp_golomb() {
        int zeros = 0;
        while (zeros < 32 && bit() == 0) {
            ++zeros;
        }
        if (zeros >= 32) {
            return std::nullopt;
        }
        return (1U << static_cast<unsigned>(zeros)) - 1 + take(zeros);
    }

  private:
    unsigned bit() {
        const std::size_t byte = at_ / 8;
        const unsigned value = byte < bytes_.size() ? bytes_[byte] >> (7 - at_ % 8) & 1U : 0;
        ++at_;
        return value;
    }

    Bytes bytes_;
    std::size_t at_ = 0;
};

// Calls `look` for each unit of a packet of H.264 or HEVC, until it returns true. The units have their lengths in
// front, as MP4 and Matroska store them, or a start code. With start codes a unit goes on to the end of the packet.
void visit_units(Bytes packet, const AVCodecParameters& video, const std::function<bool(Bytes)>& look);

// Returns whether a packet of HEVC holds a part of a picture, and not only parameters of those that follow.
bool has_picture(const AVPacket& packet, const AVCodecParameters& video);

// Returns whether a packet of MPEG-4 holds a picture that is shown before one that is decoded earlier. FFmpeg knows
// only of those at the beginning of a file. False for other codecs.
bool holds_reordered_picture(AVCodecID codec, Bytes packet);

// In which order the pictures of a video are shown, as they say themselves: in H.264 and HEVC each has a number, and in
// other codecs pictures say whether they are shown at once or wait for the following ones. Files may have times that
// know nothing of it.
class PictureOrder {
  public:
    explicit PictureOrder(const Stream& stream);

    // Takes the next packet, in the order in which they are decoded. Returns whether it holds a picture: MPEG-4 may
    // have two in a packet, and nothing in the one that follows.
    bool add(const AVPacket& packet);

    // Returns whether pictures of such a stream can be shown in another order than they are decoded.
    [[nodiscard]] bool may_reorder() const { return parser_ != nullptr; }

    // Returns whether some were.
    [[nodiscard]] bool reordered() const { return reordered_; }

    // Returns the positions of the packets in the order in which their pictures are shown.
    [[nodiscard]] std::vector<std::size_t> shown() const;

  private:
    struct FreeParser {
        void operator()(AVCodecParserContext* parser) const noexcept { av_parser_close(parser); }
    };

    // The place of a picture in the order. Numbers begin again with each sequence.
    struct Place {
        std::int64_t sequence = 0;
        std::int64_t number = 0;
    };

    void add_numbered(const AVPacket& packet);
    bool add_waiting(const AVPacket& packet, bool at_once);

    CodecParametersPtr parameters_;
    bool numbered_;
    CodecContextPtr context_;
    std::unique_ptr<AVCodecParserContext, FreeParser> parser_;
    std::vector<Place> places_;
    std::int64_t sequence_ = 0;
    std::size_t waits_ = 0;  // The position of the picture that waits, if there is one,
    bool has_waiting_ = false;
    bool packed_ = false;  // and whether the next packet stands for another one that was in the same.
    bool reordered_ = false;
};

// Follows the numbers that reference pictures of H.264 have, to find out that one is missing: ITU-T H.264, 7.4.3
// (frame_num) and 8.2.5.2. A gap that cannot be read, or may have another reason, does not count as a loss.
class H264FrameNumbers {
  public:
    explicit H264FrameNumbers(const AVCodecParameters& video);

    // Takes the next packet in the order of decoding, and returns whether a picture is missing before it that others
    // build on.
    bool misses_one(const AVPacket& packet);

    // Returns whether all pictures are shown in the order in which they are decoded, as far as the stream's header
    // says.
    [[nodiscard]] bool shows_in_order() const;

    // Says that the next packet is from another place.
    void reset() { last_.reset(); }

  private:
    struct Sequence {
        int number_bits = 0;
        bool separate_planes = false;
        bool may_have_gaps = false;
        bool in_order = false;
    };

    void read_parameters(Bytes extra);
    void read_unit(Bytes unit);
    bool read_slice(Bytes unit);

    const AVCodecParameters& video_;
    std::map<unsigned, Sequence> sequences_;
    std::map<unsigned, unsigned> pictures_;  // The sequence that each picture parameter set belongs to.
    std::optional<unsigned> last_;           // The number of the last reference picture.
};

// Returns whether key frames are known of a codec without the container: all pictures are, or their headers say so, or
// FFmpeg has a parser that looks into them.
bool containers_need_not_tell_keys(AVCodecID codec);

// Returns whether the picture in a packet says by itself whether decoding can begin with it.
bool tells_itself(const AVPacket& packet, const Stream& stream);

// Returns whether decoding can begin with a packet of a video. The picture's own data counts more than a container's or
// a parser's. These also mark pictures of H.264 that need others: after them the picture is refreshed bit by bit.
bool is_key(const AVPacket& packet, const Stream& stream);

// Decodes single pictures by FFmpeg's decoder of HEVC, which it keeps for pictures with the same header.
class HevcPictures final : public PictureDecoder {
  public:
    CodedPicture decode(Bytes config, std::span<const Bytes> pieces, Size size) override;
    void forget() noexcept override;

  private:
    void open(Bytes config, Size size);

    CodecContextPtr context_;
    std::vector<std::uint8_t> config_;
    Size size_;
    FramePtr frame_;
};

}  // namespace spdl
