#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/demux.h"
#include "image/jpeg/jpeg_decoder.h"
#include "image/orientation/exif_orientation.h"
#include "media/frame.h"
#include "media/load_options.h"
#include "media/rational.h"

namespace spdl {

struct CodecInfo {
    std::string name;
    Size size;
    std::string pixel_format;
    Rational time_base;
    Rational sample_aspect_ratio;
};

// A decoded image, and what decoded it.
struct DecodedImage {
    std::unique_ptr<Frame> frame;
    Backend backend = Backend::kFfmpeg;
};

// One image, found and delimited but not decoded. Immutable: any number of threads may decode it.
class EncodedImage {
  public:
    // `owner` keeps `bytes` in place. A JPEG is kept as it is unless the options ask for FFmpeg's demuxer.
    EncodedImage(std::shared_ptr<const void> owner, Bytes bytes, const DemuxOptions& options);

    // The encoded size.
    [[nodiscard]] std::size_t bytes() const;

    // For containers that do not say what they hold, this decodes the image once.
    const CodecInfo& info() const;

    // The image in one of our own pixel formats, as bytes. Unless the options ask for FFmpeg, JPEG is left to
    // libjpeg-turbo.
    [[nodiscard]] DecodedImage decode_resized(const LoadOptions& options, const DecodeOptions& decode) const;

    // Through FFmpeg, in the stored pixel format, then through `filters` unless those are empty.
    [[nodiscard]] DecodedImage decode_filtered(const std::string& filters, const DecodeOptions& options) const;

  private:
    [[nodiscard]] FramePtr decode_stored(const DecodeOptions& options) const;
    [[nodiscard]] AVRational time_base() const;

    std::shared_ptr<const void> owner_;  // For JPEG.
    Bytes bytes_;
    std::optional<ImagePacket> packet_;  // For everything else.
    mutable std::once_flag examined_;
    mutable CodecInfo info_;
};

}  // namespace spdl
