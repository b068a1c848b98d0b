#pragma once

#include "ffmpeg/libav.h"
#include "ffmpeg/pixel_converter.h"
#include "media/decoder.h"

namespace spdl {

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

}  // namespace spdl
