#include "gpu/nvdec_decoder.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/media_error.h"

namespace spdl {
namespace {

// Each holds tens of megabytes of device memory.
constexpr std::size_t kKept = 4;

// More than decoding needs, so that pictures can be decoded while others wait to be shown.
constexpr unsigned kMoreSurfaces = 4;

constexpr std::uintptr_t kLastDefaultStream = 2;  // CU_STREAM_PER_THREAD.

struct Pool {
    std::mutex mutex;
    std::vector<std::unique_ptr<NvdecDecoder>> unused;  // The last was used last.
};

// Never destroyed: when the process ends, CUDA may be gone.
Pool& pool() {
    static Pool& instance = *new Pool;
    return instance;
}

std::string describe(const cuda::VideoFormat& format) {
    const char* const chroma[] = {"gray", "4:2:0", "4:2:2", "4:4:4"};
    const auto index = static_cast<std::size_t>(format.chroma);
    return std::string(index < 4 ? chroma[index] : "this chroma format") + ", " +
           std::to_string(8 + format.luma_bits_above_8) + " bits, " + std::to_string(format.coded_width) + "x" +
           std::to_string(format.coded_height) + " pixels";
}

// Returns the surfaces for a format. Throws MediaError if this GPU does not decode it.
cuda::SurfaceFormat check_decodes(const cuda::VideoFormat& format, const VideoGeometry& geometry, const char* remedy) {
    cuda::VideoCapabilities capabilities;
    capabilities.codec = format.codec;
    capabilities.chroma = format.chroma;
    capabilities.bits_above_8 = format.luma_bits_above_8;
    cuda::check(cuda::nvcuvid().capabilities(&capabilities), "cuvidGetDecoderCaps", "asking what the GPU decodes");
    const unsigned macroblocks = format.coded_width * format.coded_height / 256;
    const bool fits = format.coded_width <= capabilities.max_width && format.coded_height <= capabilities.max_height &&
                      format.coded_width >= capabilities.min_width && format.coded_height >= capabilities.min_height &&
                      macroblocks <= capabilities.max_macroblocks;
    const bool deep = geometry.deep && format.luma_bits_above_8 > 0;
    const cuda::SurfaceFormat surface = deep ? cuda::SurfaceFormat::kP016 : cuda::SurfaceFormat::kNv12;
    const bool has_surface = (capabilities.surface_formats & 1U << static_cast<unsigned>(surface)) != 0;
    if (capabilities.supported == 0 || !fits || !has_surface) {
        throw MediaError(std::string("this GPU does not decode such a video to ") + (deep ? "P016: " : "NV12: ") +
                         describe(format) + "; " + remedy);
    }
    return surface;
}

}  // namespace

cuda::VideoDecoderOptions options_for(const cuda::VideoFormat& format, const VideoGeometry& geometry,
                                      const char* remedy) {
    const cuda::SurfaceFormat surface = check_decodes(format, geometry, remedy);
    const VideoCrop& crop = geometry.crop;
    const Size shown{format.shown.right - format.shown.left, format.shown.bottom - format.shown.top};
    // Both sides are even afterwards.
    const int more = geometry.whole ? 1 : 0;
    const Size left{(shown.width - crop.left - crop.right + more) / 2 * 2,
                    (shown.height - crop.top - crop.bottom + more) / 2 * 2};
    if (left.width <= 0 || left.height <= 0) {
        throw MediaError("the crop leaves nothing of a picture of " + std::to_string(shown.width) + "x" +
                         std::to_string(shown.height) + " pixels");
    }
    if (format.shown.left + crop.left + left.width > static_cast<int>(format.coded_width) ||
        format.shown.top + crop.top + left.height > static_cast<int>(format.coded_height)) {
        throw MediaError("NVDEC gives no pictures with odd sides of such a video: " + describe(format) + "; " + remedy);
    }
    cuda::VideoDecoderOptions options;
    options.width = format.coded_width;
    options.height = format.coded_height;
    options.max_width = format.coded_width;
    options.max_height = format.coded_height;
    options.decode_surfaces = std::max<unsigned>(format.least_decode_surfaces, 1) + kMoreSurfaces;
    options.codec = format.codec;
    options.chroma = format.chroma;
    options.bits_above_8 = format.luma_bits_above_8;
    options.shown.left = static_cast<short>(format.shown.left + crop.left);
    options.shown.top = static_cast<short>(format.shown.top + crop.top);
    options.shown.right = static_cast<short>(options.shown.left + left.width);
    options.shown.bottom = static_cast<short>(options.shown.top + left.height);
    options.target_width = static_cast<unsigned long>(geometry.scale.width > 0 ? geometry.scale.width : left.width);
    options.target_height = static_cast<unsigned long>(geometry.scale.height > 0 ? geometry.scale.height : left.height);
    options.surface = surface;
    options.output_surfaces = NvdecDecoder::kMapped;
    return options;
}

NvdecDecoder::NvdecDecoder(cuda::Device device, const cuda::VideoDecoderOptions& options)
    : device_(device), options_(options) {
    cuda::check(cuda::nvcuvid().create_decoder(&handle_, &options_), "cuvidCreateDecoder",
                "making a video decoder on GPU " + std::to_string(device));
}

NvdecDecoder::~NvdecDecoder() {
    if (!cuda::is_usable()) {
        return;
    }
    try {
        const cuda::ContextScope scope(device_);
        cuda::nvcuvid().destroy_decoder(handle_);
    } catch (const cuda::CudaError&) {
        // The process is ending, or a failure has ended everything on the device.
    }
}

bool NvdecDecoder::serves(cuda::Device device, const cuda::VideoDecoderOptions& options) const {
    return device == device_ && options.codec == options_.codec && options.chroma == options_.chroma &&
           options.bits_above_8 == options_.bits_above_8 && options.surface == options_.surface &&
           options.width <= options_.max_width && options.height <= options_.max_height &&
           options.decode_surfaces <= options_.decode_surfaces;
}

void NvdecDecoder::reconfigure(const cuda::VideoDecoderOptions& options) {
    cuda::VideoReconfiguration wanted;
    wanted.width = static_cast<unsigned>(options.width);
    wanted.height = static_cast<unsigned>(options.height);
    wanted.target_width = static_cast<unsigned>(options.target_width);
    wanted.target_height = static_cast<unsigned>(options.target_height);
    wanted.decode_surfaces = static_cast<unsigned>(options_.decode_surfaces);
    wanted.shown = options.shown;
    cuda::check(cuda::nvcuvid().reconfigure(handle_, &wanted), "cuvidReconfigureDecoder", "preparing a video decoder");
    options_.width = options.width;
    options_.height = options.height;
    options_.target_width = options.target_width;
    options_.target_height = options.target_height;
    options_.shown = options.shown;
}

void NvdecDecoder::decode(cuda::VideoPicture* picture) {
    cuda::check(cuda::nvcuvid().decode(handle_, picture), "cuvidDecodePicture", "decoding video on the GPU");
}

bool NvdecDecoder::is_damaged(int picture) const {
    cuda::VideoDecodeStatus status;
    return cuda::nvcuvid().decode_status(handle_, picture, &status) == cuda::Status::kSuccess &&
           (status.status == cuda::kDamaged || status.status == cuda::kConcealed);
}

MappedFrame NvdecDecoder::map(const cuda::ShownPicture& picture, cuda::Stream stream) {
    cuda::VideoPostprocessing options;
    options.progressive = picture.progressive;
    options.top_field_first = picture.top_field_first;
    options.second_field = picture.repeat_first_field + 1;
    options.unpaired_field = picture.repeat_first_field < 0 ? 1 : 0;
    // The default streams have no handles of their own. Work on the legacy one is ordered with that on a thread's.
    options.stream = reinterpret_cast<std::uintptr_t>(stream) <= kLastDefaultStream ? nullptr : stream;
    MappedFrame frame;
    cuda::check(cuda::nvcuvid().map(handle_, picture.index, &frame.address, &frame.pitch, &options),
                "cuvidMapVideoFrame64", "reading a decoded frame");
    return frame;
}

void NvdecDecoder::unmap(const MappedFrame& frame) {
    cuda::check(cuda::nvcuvid().unmap(handle_, frame.address), "cuvidUnmapVideoFrame64", "returning a decoded frame");
}

bool NvdecDecoder::unmap_quietly(const MappedFrame& frame) noexcept {
    return cuda::nvcuvid().unmap(handle_, frame.address) == cuda::Status::kSuccess;
}

std::unique_ptr<NvdecDecoder> take_decoder(cuda::Device device, const cuda::VideoDecoderOptions& options, bool reuse) {
    std::unique_ptr<NvdecDecoder> decoder;
    if (reuse) {
        Pool& shared = pool();
        const std::scoped_lock lock(shared.mutex);
        const auto found = std::find_if(shared.unused.rbegin(), shared.unused.rend(),
                                        [&](const auto& each) { return each->serves(device, options); });
        if (found != shared.unused.rend()) {
            decoder = std::move(*found);
            shared.unused.erase(std::next(found).base());
        }
    }
    if (!decoder) {
        return std::make_unique<NvdecDecoder>(device, options);
    }
    // Also if nothing changes: it forgets what it decoded before.
    decoder->reconfigure(options);
    return decoder;
}

void keep_decoder(std::unique_ptr<NvdecDecoder> decoder) {
    std::unique_ptr<NvdecDecoder> oldest;
    {
        Pool& shared = pool();
        const std::scoped_lock lock(shared.mutex);
        shared.unused.push_back(std::move(decoder));
        if (shared.unused.size() > kKept) {
            oldest = std::move(shared.unused.front());
            shared.unused.erase(shared.unused.begin());
        }
    }
}

}  // namespace spdl
