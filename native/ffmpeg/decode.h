#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/frames.h"
#include "ffmpeg/libav.h"
#include "media/decoder.h"
#include "media/image_format.h"
#include "media/options.h"
#include "media/packet.h"

namespace spdl {

// One encoded image and what its decoder needs to know.
struct ImagePacket {
    PacketPtr packet;
    CodecParametersPtr parameters;
    AVRational time_base{0, 1};
};

// Returns the unit of the timestamps of such a frame.
AVRational time_base(const EncodedImage& image);

// Decodes the image to its stored pixel format, and applies `filters` unless they are empty. Throws MediaError.
std::unique_ptr<Frame> decode_filtered(const Packet& packet, const std::string& filters, const DecodeOptions& options);

// Applies filters to a frame of FFmpeg's. Throws MediaError.
std::unique_ptr<Frame> filtered(std::unique_ptr<Frame> frame, const std::string& filters);

// One of FFmpeg's packets.
class FfmpegPacket final : public Packet {
  public:
    explicit FfmpegPacket(ImagePacket packet);

    [[nodiscard]] std::size_t bytes() const override { return static_cast<std::size_t>(packet_.packet->size); }

    // Containers need not say what they hold, so this decodes the image with the default options.
    [[nodiscard]] const CodecInfo& info() const override;

    [[nodiscard]] EncodedImage image() const override { return {{packet_.packet->data, bytes()}, {}, this}; }

    [[nodiscard]] const ImagePacket& get() const { return packet_; }

  private:
    ImagePacket packet_;
    mutable std::once_flag examined_;
    mutable CodecInfo info_;
};

// Decodes by FFmpeg: the whole image, when it is opened.
class FfmpegDecoder final : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept override;
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;

    // Uses FFmpeg's filters if the options of open() name FFmpeg as the backend.
    std::optional<ImageShape> transform(const ImageShape& shape, const LoadOptions& options,
                                        const CropAndFlip& crop) override;

    void decode(const Region& region, Place& place) override;
    [[nodiscard]] FrameProperties properties() const override;
    void close() noexcept override { frame_.reset(); }
    std::shared_ptr<const Packet> demux(std::shared_ptr<const void> owner, const EncodedImage& image,
                                        const DemuxOptions& options) override;

    // Opens an image that is decoded already.
    ImageShape open(FramePtr frame);

  private:
    FramePtr frame_;
    AVRational time_base_{0, 1};
    bool filters_ = false;
    PixelConverter converter_;
};

// Decodes with FFmpeg if it is named, or if options ask for something that only FFmpeg has.
extern const Backend ffmpeg_backend;

// FFmpeg counts the pixels of padded rows.
inline constexpr std::int64_t kPaddingPixels = std::int64_t{64} * kMaxSide;

// FFmpeg inflates data beside the picture without any limit: a megabyte may become a gigabyte beside a picture of a few
// pixels, which no limit of pixels forbids. And where a file does not say all that it should, FFmpeg goes on with
// memory that nobody has written, and shows that as pixels or in messages. These functions refuse such files.

// Checks a container for QuickTime's compressed headers. Throws MediaError.
void check_container(Bytes bytes);

// Checks an AVIF or HEIF file for the place of its picture. Throws MediaError.
void check_items(Bytes bytes);

// Checks an image before it is decoded: a PNG for compressed texts and profiles, a TIFF for the colours of a palette
// and for strips that end early. Throws MediaError.
void check_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
