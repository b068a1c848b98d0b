#include "gpu/nvdec.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "cuda/kernels.h"
#include "gpu/resize_work.h"

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
    // The default streams have no separate handles. Work on the legacy one is ordered with work on a thread's.
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

namespace {

// Returns the filter that brings packets into the form of a stream without a container; nothing if they have it.
const char* filter_for(const AVCodecParameters& parameters) {
    const bool boxed = parameters.extradata_size > 0 && parameters.extradata[0] == 1;
    if (boxed && parameters.codec_id == AV_CODEC_ID_H264) {
        return "h264_mp4toannexb";
    }
    return boxed && parameters.codec_id == AV_CODEC_ID_HEVC ? "hevc_mp4toannexb" : nullptr;
}

// Returns what the container says in place of the stream, and the decoder needs first.
std::vector<std::uint8_t> header_of(const AVCodecParameters& parameters) {
    const Bytes extra(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    switch (parameters.codec_id) {
        case AV_CODEC_ID_AV1: {
            // Behind four bytes of a box lies the sequence header.
            constexpr std::size_t kBox = 4;
            const bool boxed = extra.size() > kBox && extra[0] == 0x81;
            const Bytes header = boxed ? extra.subspan(kBox) : Bytes();
            return {header.begin(), header.end()};
        }
        case AV_CODEC_ID_VP8:
        case AV_CODEC_ID_VP9:
            return {};
        default:
            return {extra.begin(), extra.end()};
    }
}

}  // namespace

cuda::VideoCodec nvdec_codec(const Stream& stream, const char* remedy) {
    switch (stream.parameters->codec_id) {
        case AV_CODEC_ID_MPEG1VIDEO:
            return cuda::VideoCodec::kMpeg1;
        case AV_CODEC_ID_MPEG2VIDEO:
            return cuda::VideoCodec::kMpeg2;
        case AV_CODEC_ID_MPEG4:
            return cuda::VideoCodec::kMpeg4;
        case AV_CODEC_ID_H264:
            return cuda::VideoCodec::kH264;
        case AV_CODEC_ID_HEVC:
            return cuda::VideoCodec::kHevc;
        case AV_CODEC_ID_VP8:
            return cuda::VideoCodec::kVp8;
        case AV_CODEC_ID_VP9:
            return cuda::VideoCodec::kVp9;
        case AV_CODEC_ID_AV1:
            return cuda::VideoCodec::kAv1;
        default:
            throw MediaError(stream.describe() + ": NVDEC decodes no " + avcodec_get_name(stream.parameters->codec_id) +
                             "; " + remedy);
    }
}

NvdecPackets::NvdecPackets(std::shared_ptr<const Stream> stream) : stream_(std::move(stream)) {
    const char* const filter = filter_for(*stream_->parameters);
    if (filter != nullptr) {
        filter_ = std::make_unique<BitStreamFilter>(stream_, filter);
    }
    // The filter itself puts the header only in front of pictures that no other may precede, and decoding also begins
    // with others.
    header_ = header_of(filter_ ? *filter_->output()->parameters : *stream_->parameters);
}

void NvdecPackets::add(const AVPacket& packet, const Send& send) {
    if (!filter_) {
        pass(packet, send);
        return;
    }
    std::vector<PacketPtr> filtered;
    filter_->add(reference(packet), filtered);
    for (const PacketPtr& each : filtered) {
        pass(*each, send);
    }
}

void NvdecPackets::flush(const Send& send) {
    if (filter_) {
        std::vector<PacketPtr> rest;
        filter_->flush(rest);
        for (const PacketPtr& each : rest) {
            pass(*each, send);
        }
    }
    first_ = true;
}

void NvdecPackets::pass(const AVPacket& packet, const Send& send) {
    if (is_empty(packet)) {
        return;
    }
    cuda::VideoPacket sent;
    sent.data = packet.data;
    sent.size = static_cast<unsigned long>(packet.size);
    sent.timestamp = time_of(packet);
    sent.flags = sent.timestamp == AV_NOPTS_VALUE ? 0 : cuda::kHasTimestamp;
    std::vector<std::uint8_t> joined;
    if (first_ && !header_.empty()) {
        joined = header_;
        joined.insert(joined.end(), packet.data, packet.data + packet.size);
        sent.data = joined.data();
        sent.size = joined.size();
    }
    first_ = false;
    send(sent);
}

namespace {

// The shares of red and blue in luma.
struct Shares {
    double red;
    double blue;
};

std::optional<Shares> shares_of(int matrix) {
    switch (matrix) {
        case 1:
            return Shares{0.2126, 0.0722};
        case 4:
            return Shares{0.30, 0.11};
        case 5:
        case 6:
            return Shares{0.299, 0.114};
        case 7:
            return Shares{0.212, 0.087};
        case 9:
        case 10:
            return Shares{0.2627, 0.0593};
        default:
            return std::nullopt;
    }
}

int fixed(double value) {
    return static_cast<int>(std::lround(value * (1 << cuda::kernels::kPlaces)));
}

}  // namespace

bool is_known_matrix(int matrix) {
    return shares_of(matrix).has_value();
}

std::string FrameForm::describe() const {
    return std::to_string(surface.width) + "x" + std::to_string(surface.height) +
           (bits > 8 ? " of " + std::to_string(bits) + " bits" : "");
}

cuda::kernels::YuvFactors yuv_factors(const VideoColors& colors, int bits) {
    const Shares shares = shares_of(colors.matrix).value_or(Shares{0.2126, 0.0722});
    const double green = 1 - shares.red - shares.blue;
    // A sample of 8 bits counts in steps of 1, one with more bits in smaller steps.
    const int step = 1 << (bits - 8);
    const double whole = 255.0 / (256 * step - 1);
    const double luma = colors.full_range ? whole : 255.0 / (219 * step);
    const double chroma = colors.full_range ? whole : 255.0 / (224 * step);
    const double red = 2 * (1 - shares.red) * chroma;
    const double blue = 2 * (1 - shares.blue) * chroma;
    cuda::kernels::YuvFactors factors{};
    factors.luma_offset = colors.full_range ? 0 : 16 * step;
    factors.chroma_offset = 128 * step;
    factors.luma = fixed(luma);
    factors.red_of_red = fixed(red);
    factors.green_of_blue = fixed(-blue * shares.blue / green);
    factors.green_of_red = fixed(-red * shares.red / green);
    factors.blue_of_blue = fixed(blue);
    factors.unused_bits = bits > 8 ? 16 - bits : 0;
    factors.deep = bits > 8 ? 1 : 0;
    return factors;
}

void convert_frames(cuda::Device device, cuda::Stream stream, const std::string& kernel_folder,
                    std::span<const YuvFrames> from, const FrameForm& form, bool blue_first, cuda::DevicePointer to) {
    // The third side of a grid is no longer.
    constexpr int kMostFrames = 65535;
    const cuda::Kernels& kernels = cuda::load_kernels(device, kernel_folder);
    const cuda::ContextScope scope(device);
    const Size size = form.surface;
    cuda::kernels::PlanesArguments arguments{};
    arguments.width = size.width;
    arguments.height = size.height;
    arguments.factors = yuv_factors(form.colors, form.bits);
    arguments.order = blue_first ? cuda::kernels::kBlueFirst : cuda::kernels::kRedFirst;
    Workspace workspace(device, stream);
    workspace.begin();
    for (const YuvFrames& part : from) {
        for (int first = 0; first < part.count; first += kMostFrames) {
            const int count = std::min(kMostFrames, part.count - first);
            const std::size_t begin = part.frames + static_cast<std::size_t>(first) * form.bytes();
            arguments.from = reinterpret_cast<const cuda::kernels::Byte*>(begin);
            arguments.to = reinterpret_cast<cuda::kernels::Byte*>(to);
            cuda::launch(kernels.convert_to_planes, size.width, size.height, count, &arguments, stream,
                         "convert_to_planes");
            to += rgb_bytes(size) * static_cast<std::size_t>(count);
        }
    }
    workspace.finish();
}

}  // namespace spdl
