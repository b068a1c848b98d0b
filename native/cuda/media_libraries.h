#pragma once

#include <cstddef>
#include <string>

#include "cuda/driver.h"

namespace spdl::cuda {

// The part of NVDEC's interface (libnvcuvid, which comes with the driver) that is used here.

enum class VideoCodec : int {
    kMpeg1 = 0,
    kMpeg2 = 1,
    kMpeg4 = 2,
    kVc1 = 3,
    kH264 = 4,
    kHevc = 8,
    kVp8 = 9,
    kVp9 = 10,
    kAv1 = 11,
};

enum class ChromaFormat : int { kMonochrome = 0, k420 = 1, k422 = 2, k444 = 3 };

// A plane of luma, and one of chroma, blue and red in turns. Samples of P016 have 16 bits; the upper ones count.
enum class SurfaceFormat : int { kNv12 = 0, kP016 = 1 };

using VideoDecoder = void*;
using VideoParser = void*;

template <typename Side>
struct VideoRectangle {
    Side left = 0;
    Side top = 0;
    Side right = 0;
    Side bottom = 0;
};

// CUVIDDECODECAPS.
struct VideoCapabilities {
    VideoCodec codec = VideoCodec::kH264;
    ChromaFormat chroma = ChromaFormat::k420;
    unsigned bits_above_8 = 0;
    unsigned reserved1[3] = {};
    unsigned char supported = 0;
    unsigned char engines = 0;
    unsigned short surface_formats = 0;  // A bit for each SurfaceFormat.
    unsigned max_width = 0;
    unsigned max_height = 0;
    unsigned max_macroblocks = 0;
    unsigned short min_width = 0;
    unsigned short min_height = 0;
    unsigned char histogram = 0;
    unsigned char counter_bits = 0;
    unsigned short histogram_bins = 0;
    unsigned reserved3[10] = {};
};

// CUVIDDECODECREATEINFO.
struct VideoDecoderOptions {
    unsigned long width = 0;
    unsigned long height = 0;
    unsigned long decode_surfaces = 0;
    VideoCodec codec = VideoCodec::kH264;
    ChromaFormat chroma = ChromaFormat::k420;
    unsigned long flags = 4;  // cudaVideoCreate_PreferCUVID: the engines of the chip.
    unsigned long bits_above_8 = 0;
    unsigned long intra_only = 0;
    unsigned long max_width = 0;
    unsigned long max_height = 0;
    unsigned long reserved1 = 0;
    VideoRectangle<short> shown;
    SurfaceFormat surface = SurfaceFormat::kNv12;
    int deinterlace = 0;  // cudaVideoDeinterlaceMode_Weave: none.
    unsigned long target_width = 0;
    unsigned long target_height = 0;
    unsigned long output_surfaces = 0;
    void* lock = nullptr;
    VideoRectangle<short> target;
    unsigned long histogram = 0;
    unsigned long reserved2[4] = {};
};

// CUVIDRECONFIGUREDECODERINFO.
struct VideoReconfiguration {
    unsigned width = 0;
    unsigned height = 0;
    unsigned target_width = 0;
    unsigned target_height = 0;
    unsigned decode_surfaces = 0;
    unsigned reserved1[12] = {};
    VideoRectangle<short> shown;
    VideoRectangle<short> target;
    unsigned reserved2[11] = {};
};

// CUVIDPICPARAMS: the parser fills it and the decoder reads it.
struct VideoPicture;

// CUVIDGETDECODESTATUS.
struct VideoDecodeStatus {
    int status = 0;
    unsigned reserved1[31] = {};
    void* reserved2[8] = {};
};

inline constexpr int kDamaged = 8;    // cuvidDecodeStatus_Error.
inline constexpr int kConcealed = 9;  // cuvidDecodeStatus_Error_Concealed.

// CUVIDPROCPARAMS.
struct VideoPostprocessing {
    int progressive = 0;
    int second_field = 0;
    int top_field_first = 0;
    int unpaired_field = 0;
    unsigned reserved_flags = 0;
    unsigned reserved_zero = 0;
    unsigned long long raw_input = 0;
    unsigned raw_input_pitch = 0;
    unsigned raw_input_format = 0;
    unsigned long long raw_output = 0;
    unsigned raw_output_pitch = 0;
    unsigned reserved1 = 0;
    Stream stream = nullptr;
    unsigned reserved[46] = {};
    unsigned long long* histogram = nullptr;
    void* reserved2[1] = {};
};

// CUVIDEOFORMAT.
struct VideoFormat {
    VideoCodec codec;
    unsigned rate_numerator;
    unsigned rate_denominator;
    unsigned char progressive;
    unsigned char luma_bits_above_8;
    unsigned char chroma_bits_above_8;
    unsigned char least_decode_surfaces;
    unsigned coded_width;
    unsigned coded_height;
    VideoRectangle<int> shown;
    ChromaFormat chroma;
    unsigned bit_rate;
    int aspect_x;
    int aspect_y;
    unsigned char signal;  // Bits 0 to 2: video format; bit 3: full range.
    unsigned char primaries;
    unsigned char transfer;
    unsigned char matrix;
    unsigned header_bytes;
};

inline constexpr unsigned long kEndOfStream = 1;
inline constexpr unsigned long kHasTimestamp = 2;
inline constexpr unsigned long kEndOfPicture = 8;

// CUVIDSOURCEDATAPACKET.
struct VideoPacket {
    unsigned long flags = 0;
    unsigned long size = 0;
    const unsigned char* data = nullptr;
    long long timestamp = 0;
};

// CUVIDPARSERDISPINFO.
struct ShownPicture {
    int index;
    int progressive;
    int top_field_first;
    int repeat_first_field;
    long long timestamp;
};

// CUVIDPARSERPARAMS.
struct VideoParserOptions {
    VideoCodec codec = VideoCodec::kH264;
    unsigned max_decode_surfaces = 1;
    unsigned clock_rate = 0;
    unsigned error_threshold = 0;
    unsigned max_display_delay = 0;
    unsigned annex_b = 0;  // A bit, and reserved ones.
    unsigned reserved1[4] = {};
    void* user = nullptr;
    int (*on_sequence)(void* user, VideoFormat* format) = nullptr;
    int (*on_decode)(void* user, VideoPicture* picture) = nullptr;
    int (*on_show)(void* user, ShownPicture* picture) = nullptr;
    int (*on_operating_point)(void* user, void* operating_point) = nullptr;
    void* reserved2[6] = {};
    void* extended_format = nullptr;
};

struct Nvcuvid {
    Status (*capabilities)(VideoCapabilities* capabilities);
    Status (*create_decoder)(VideoDecoder* decoder, VideoDecoderOptions* options);
    Status (*destroy_decoder)(VideoDecoder decoder);
    Status (*decode)(VideoDecoder decoder, VideoPicture* picture);
    // Fails for codecs and chips without a status.
    Status (*decode_status)(VideoDecoder decoder, int picture, VideoDecodeStatus* status);
    Status (*reconfigure)(VideoDecoder decoder, VideoReconfiguration* options);
    Status (*map)(VideoDecoder decoder, int picture, unsigned long long* frame, unsigned* pitch,
                  VideoPostprocessing* options);
    Status (*unmap)(VideoDecoder decoder, unsigned long long frame);
    Status (*create_parser)(VideoParser* parser, VideoParserOptions* options);
    Status (*parse)(VideoParser parser, VideoPacket* packet);
    Status (*destroy_parser)(VideoParser parser);
    std::string path;
};

// Returns the library, which the first call loads. Throws CudaUnavailable, which says what is missing and what to do.
const Nvcuvid& nvcuvid();

// The part of nvJPEG's interface that is used here. The declarations are ours, as for the driver.

enum class JpegStatus : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kInvalidParameter = 2,
    kBadJpeg = 3,
    kJpegNotSupported = 4,
    kAllocatorFailure = 5,
    kExecutionFailed = 6,
    kArchitectureMismatch = 7,
    kInternalError = 8,
    kImplementationNotSupported = 9,
    kIncompleteBitstream = 10,
};

enum class JpegBackend : int {
    kGpuHybrid = 2,  // The processor and kernels decode.
    kHardware = 3,   // The JPEG engine of the chip decodes; not every chip has one.
};

enum class JpegOutput : int {
    kUnchanged = 0,  // Planes as they are stored: luma, and chroma if there is any.
};

using JpegHandle = struct JpegHandleHandle*;
using JpegState = struct JpegStateHandle*;
using JpegStream = struct JpegStreamHandle*;

// nvjpegImage_t.
struct JpegPlanes {
    unsigned char* plane[4] = {};
    std::size_t pitch[4] = {};
};

struct NvJpeg {
    JpegStatus (*property)(int type, int* value);  // 0, 1 and 2 are major, minor and patch.
    JpegStatus (*create)(JpegBackend backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                         JpegHandle* handle);
    JpegStatus (*destroy)(JpegHandle handle);
    JpegStatus (*create_state)(JpegHandle handle, JpegState* state);
    JpegStatus (*destroy_state)(JpegState state);
    JpegStatus (*create_stream)(JpegHandle handle, JpegStream* stream);
    JpegStatus (*destroy_stream)(JpegStream stream);
    JpegStatus (*parse_header)(JpegHandle handle, const unsigned char* data, std::size_t length, JpegStream stream);
    JpegStatus (*batch_supports)(JpegHandle handle, JpegStream stream, int* unsupported);  // 0 says that it does.
    JpegStatus (*begin_batch)(JpegHandle handle, JpegState state, int images, int max_cpu_threads, JpegOutput output);
    JpegStatus (*decode_batch)(JpegHandle handle, JpegState state, const unsigned char* const* data,
                               const std::size_t* lengths, JpegPlanes* images, Stream stream);
    std::string path;
};

// Returns the library, which the first call loads. Throws CudaUnavailable, which says what is missing and what to do.
const NvJpeg& nvjpeg();

// Returns the library's version, such as "12.4.0".
std::string nvjpeg_version();

// Throws CudaError unless the named call succeeded; `what` says what the call was for.
void check(JpegStatus status, const char* call, const std::string& what);

}  // namespace spdl::cuda
