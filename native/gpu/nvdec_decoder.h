#pragma once

#include <memory>

#include "core/geometry.h"
#include "cuda/device.h"
#include "cuda/nvcuvid.h"

namespace spdl {

// The pixels that are cut off at each side of a video.
struct VideoCrop {
    int left = 0;
    int top = 0;
    int right = 0;
    int bottom = 0;
};

// How a video is cut and scaled on the way out of the decoder.
struct VideoGeometry {
    VideoCrop crop;
    Size scale;         // A side of 0 stays as it is.
    bool deep = false;  // Whether samples of more than 8 bits keep them, in P016. Otherwise all come in NV12.
    // Whether an odd side gets one more line, of what lies beyond the picture. Otherwise its last line is left out.
    bool whole = false;
};

// A frame of a decoder that is mapped into device memory.
struct MappedFrame {
    unsigned long long address = 0;
    unsigned pitch = 0;
};

// One of NVDEC's decoders, with its surfaces. One thread at a time; the device's context must be current.
class NvdecDecoder {
  public:
    // How many frames can be mapped at once: one is copied while the next is mapped.
    static constexpr unsigned kMapped = 2;

    NvdecDecoder(cuda::Device device, const cuda::VideoDecoderOptions& options);
    NvdecDecoder(const NvdecDecoder&) = delete;
    NvdecDecoder& operator=(const NvdecDecoder&) = delete;
    ~NvdecDecoder();

    [[nodiscard]] const cuda::VideoDecoderOptions& options() const { return options_; }
    [[nodiscard]] cuda::Device device() const { return device_; }

    // Returns whether reconfigure() makes it a decoder with these options.
    [[nodiscard]] bool serves(cuda::Device device, const cuda::VideoDecoderOptions& options) const;
    void reconfigure(const cuda::VideoDecoderOptions& options);

    void decode(cuda::VideoPicture* picture);

    // Returns whether the decoder says that a picture is damaged. It does not say so of all codecs.
    [[nodiscard]] bool is_damaged(int picture) const;

    MappedFrame map(const cuda::ShownPicture& picture, cuda::Stream stream);
    void unmap(const MappedFrame& frame);

    // Does so while something else fails. Returns whether it succeeded.
    bool unmap_quietly(const MappedFrame& frame) noexcept;

  private:
    cuda::Device device_;
    cuda::VideoDecoderOptions options_;
    cuda::VideoDecoder handle_ = nullptr;
};

// Returns the options of a decoder for a sequence of pictures. Sides become even, as NV12 needs. Throws MediaError if
// this GPU does not decode the format, or the crop leaves nothing; where the CPU would help, it ends with the remedy.
cuda::VideoDecoderOptions options_for(const cuda::VideoFormat& format, const VideoGeometry& geometry,
                                      const char* remedy);

// Returns a decoder for these options: one that is kept if `reuse`, or else a new one.
std::unique_ptr<NvdecDecoder> take_decoder(cuda::Device device, const cuda::VideoDecoderOptions& options, bool reuse);

// Keeps a decoder for the next video. A few are kept, and then the one is destroyed that was not used for longest.
void keep_decoder(std::unique_ptr<NvdecDecoder> decoder);

}  // namespace spdl
