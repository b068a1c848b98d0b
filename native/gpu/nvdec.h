#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "av/packets.h"
#include "core/geometry.h"
#include "core/non_copyable.h"
#include "cuda/device.h"
#include "cuda/kernel_arguments.h"
#include "cuda/media_libraries.h"

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
    Size scale;         // A side of 0 stays unchanged.
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
class NvdecDecoder : NonCopyable {
  public:
    // How many frames can be mapped at once: one is copied while the next is mapped.
    static constexpr unsigned kMapped = 2;

    NvdecDecoder(cuda::Device device, const cuda::VideoDecoderOptions& options);
    ~NvdecDecoder();

    [[nodiscard]] const cuda::VideoDecoderOptions& options() const { return options_; }
    [[nodiscard]] cuda::Device device() const { return device_; }

    // Returns whether reconfigure() makes it a decoder with these options.
    [[nodiscard]] bool serves(cuda::Device device, const cuda::VideoDecoderOptions& options) const;
    void reconfigure(const cuda::VideoDecoderOptions& options);

    void decode(cuda::VideoPicture* picture);

    // Returns whether the decoder reports a picture as damaged. It does not for all codecs.
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

// Returns NVDEC's name of a codec. Throws MediaError, which ends with the remedy, if it has none.
cuda::VideoCodec nvdec_codec(const Stream& stream, const char* remedy);

// Brings the packets of a video into the form that NVDEC reads: a stream without a container, which begins with the
// headers that containers keep apart.
class NvdecPackets {
  public:
    explicit NvdecPackets(std::shared_ptr<const Stream> stream);

    using Send = std::function<void(const cuda::VideoPacket& packet)>;

    // Passes on what becomes of a packet. It is valid during the call.
    void add(const AVPacket& packet, const Send& send);

    // Passes on the rest. Another video, or another place of it, may follow.
    void flush(const Send& send);

  private:
    void pass(const AVPacket& packet, const Send& send);

    std::shared_ptr<const Stream> stream_;
    std::unique_ptr<BitStreamFilter> filter_;
    std::vector<std::uint8_t> header_;  // Goes in front of the first packet.
    bool first_ = true;
};

// How the colours of a video are coded, by the numbers of ITU-T H.273.
struct VideoColors {
    int matrix = 1;           // 1: BT.709; 5 and 6: BT.601; 9: BT.2020; also 4 and 7.
    bool full_range = false;  // Whether luma goes from 0 to 255, and not from 16 to 235.
    bool operator==(const VideoColors&) const = default;
};

// Returns whether the matrix is one that can be converted.
bool is_known_matrix(int matrix);

// How a frame lies in memory: rows of luma, and below them half as many of chroma, blue and red in turns. That is NV12.
// Samples of more than 8 bits take 16; the upper ones count. That is P016.
struct FrameForm {
    Size surface;  // Of luma, with even sides.
    Size shown;    // What of it is the picture, from the left and the top.
    int bits = 8;
    VideoColors colors;
    bool operator==(const FrameForm&) const = default;

    [[nodiscard]] std::size_t sample_bytes() const { return bits > 8 ? 2 : 1; }
    [[nodiscard]] std::size_t bytes() const { return rgb_bytes(surface) / 2 * sample_bytes(); }

    // Returns whether frames of both can be in one array.
    [[nodiscard]] bool fits(const FrameForm& other) const { return surface == other.surface && bits == other.bits; }

    [[nodiscard]] std::string describe() const;
};

// Returns the kernels' factors for the colours of samples with that many bits.
cuda::kernels::YuvFactors yuv_factors(const VideoColors& colors, int bits);

// Frames that lie one after the other on a device.
struct YuvFrames {
    cuda::DevicePointer frames = 0;
    int count = 0;
};

// Converts frames of one form to planes of red, green and blue, which lie one after the other from `to` on. Chroma
// samples are repeated. The work is done when it returns. Throws CudaError.
void convert_frames(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                    std::span<const YuvFrames> from, const FrameForm& form, bool blue_first, cuda::DevicePointer to);

}  // namespace spdl
