#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// In which order the pictures of a video are shown, as they say themselves: of H.264 and HEVC each has a number, and
// those of other codecs say whether they are shown at once or wait for those that follow. Files may have times that
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

    // Where a picture is in the order. Numbers begin anew with each sequence.
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

}  // namespace spdl
