#pragma once

#include <cstdint>
#include <vector>

#include "ffmpeg/libav.h"
#include "image/heic/coded_picture.h"

namespace spdl {

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
