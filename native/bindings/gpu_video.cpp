#include "bindings/gpu_video.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/av_objects.h"
#include "bindings/cuda_buffer.h"
#include "bindings/frames.h"
#include "bindings/gil.h"
#include "bindings/native_call.h"
#include "gpu/video_reader.h"
#include "gpu/yuv_frames.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// The Python object over the decoder of one video. Any number of threads may use it, one after the other.
class GpuVideoObject {
  public:
    GpuVideoObject(const Codec<Medium::kVideo>& codec, std::tuple<int, int, int, int> crop, std::pair<int, int> scale,
                   cuda::Device device, std::uintptr_t stream, nb::object allocator, bool reuse, bool deep)
        : allocator_(std::move(allocator)), stream_(stream) {
        const auto& [left, top, right, bottom] = crop;
        const VideoGeometry geometry{
            .crop = {left, top, right, bottom}, .scale = {scale.first, scale.second}, .deep = deep, .whole = false};
        target_.device = device;
        target_.stream = stream_of(stream);
        target_.reuse = reuse;
        target_.allocate = make_allocator(allocator_, device, stream);
        reader_ = run("nvdec_decoder", "nvdec_decoder",
                      [&] { return std::make_unique<GpuVideoReader>(codec.stream, geometry, target_); });
    }
    GpuVideoObject(const GpuVideoObject&) = delete;
    GpuVideoObject& operator=(const GpuVideoObject&) = delete;
    ~GpuVideoObject() {
        const ReleasedGil released;
        reader_.reset();
    }

    void set_chunk(std::size_t frames) {
        const ReleasedGil released;
        const std::scoped_lock lock(mutex_);
        reader_->set_chunk(frames);
    }

    // Takes packets, and returns the chunks that are full.
    std::vector<CudaBuffer> decode(PacketsOf<Medium::kVideo>& object) {
        HeldPackets<Medium::kVideo> packets = object.take();
        return wrap(run("NvDecDecoder.streaming_decode_packets", packets.name, [&] {
            const std::scoped_lock lock(mutex_);
            const PacketList consumed = std::move(packets.list);
            reader_->decode(consumed);
            return reader_->take(false);
        }));
    }

    // Returns the frames that are left.
    std::vector<CudaBuffer> flush() {
        return wrap(run("NvDecDecoder.flush", "NvDecDecoder.flush", [&] {
            const std::scoped_lock lock(mutex_);
            reader_->end();
            return reader_->take(true);
        }));
    }

    // Decodes all frames of a video into one array.
    CudaBuffer decode_all(PacketsOf<Medium::kVideo>& object) {
        HeldPackets<Medium::kVideo> packets = object.take();
        return wrap(run("NvDecDecoder.decode_packets", packets.name, [&] {
            const std::scoped_lock lock(mutex_);
            const PacketList consumed = std::move(packets.list);
            // A packet makes a frame; those of some codecs make a few more.
            reader_->set_chunk(consumed.packets.size() + 1);
            reader_->decode(consumed);
            reader_->end();
            std::vector<FrameChunk> chunks = reader_->take(true);
            if (chunks.empty()) {
                throw MediaError("the packets hold no frame that is shown within their window");
            }
            return join(std::move(chunks), target_);
        }));
    }

    // Returns the matrix, the range, and how many bits a sample has.
    std::tuple<int, bool, int> form() {
        const ReleasedGil released;
        const std::scoped_lock lock(mutex_);
        const FrameForm& form = reader_->form();
        return {form.colors.matrix, form.colors.full_range, form.bits};
    }

  private:
    CudaBuffer wrap(FrameChunk chunk) const {
        const auto width = static_cast<std::size_t>(chunk.form.surface.width);
        const auto height = static_cast<std::size_t>(chunk.form.surface.height);
        return {std::move(chunk.memory.owner),
                chunk.memory.pointer,
                {chunk.times.size(), height + height / 2, width},
                chunk.form.bits > 8 ? ElementType::kUint16 : ElementType::kUint8,
                target_.device,
                stream_,
                {}};
    }

    std::vector<CudaBuffer> wrap(std::vector<FrameChunk> chunks) const {
        std::vector<CudaBuffer> wrapped;
        for (FrameChunk& chunk : chunks) {
            wrapped.push_back(wrap(std::move(chunk)));
        }
        return wrapped;
    }

    nb::object allocator_;
    std::uintptr_t stream_;
    GpuVideoReader::Target target_;
    std::unique_ptr<GpuVideoReader> reader_;
    std::mutex mutex_;
};

// Frames as decoders make them: (N, H * 3 / 2, W) or (H * 3 / 2, W) samples, of one size with even sides.
Size size_of(const CudaBuffer& frames, ElementType type) {
    const std::size_t sides = frames.shape.size();
    if ((sides != 2 && sides != 3) || frames.type != type) {
        throw nb::value_error("NV12 frames are uint8 (N, H * 3 / 2, W)");
    }
    const std::size_t width = frames.shape[sides - 1];
    const std::size_t rows = frames.shape[sides - 2];
    if (width == 0 || rows == 0 || width % 2 != 0 || rows % 3 != 0 || width > kMaxSide || rows > 2 * kMaxSide) {
        throw nb::value_error("NV12 frames have an even width, and 3 / 2 times as many rows as an even height");
    }
    return {static_cast<int>(width), static_cast<int>(rows / 3 * 2)};
}

CudaBuffer convert(const std::vector<const CudaBuffer*>& buffers, std::pair<int, bool> colors, int bits,
                   bool blue_first, cuda::Device device, std::uintptr_t stream, const nb::object& allocator,
                   const std::string& kernel_folder) {
    if (buffers.empty() || !is_known_matrix(colors.first)) {
        throw nb::value_error("there are no frames, or their matrix is not known");
    }
    const ElementType type = bits > 8 ? ElementType::kUint16 : ElementType::kUint8;
    const Size size = size_of(*buffers.front(), type);
    std::vector<YuvFrames> frames;
    std::size_t count = 0;
    for (const CudaBuffer* const buffer : buffers) {
        if (size_of(*buffer, type) != size || buffer->device != device) {
            throw nb::value_error("the frames must have one size, and be on the GPU of the configuration");
        }
        const std::size_t here = buffer->shape.size() == 2 ? 1 : buffer->shape.front();
        frames.push_back({buffer->data, static_cast<int>(here)});
        count += here;
    }
    const std::size_t bytes = count * rgb_bytes(size);
    CudaBuffer result{nullptr,
                      0,
                      {count, 3, static_cast<std::size_t>(size.height), static_cast<std::size_t>(size.width)},
                      ElementType::kUint8,
                      device,
                      stream,
                      {}};
    cuda::DeviceMemory memory;
    {
        const NativeCall native("nv12_to_rgb");
        memory = make_allocator(allocator, device, stream)(bytes);
        const FrameForm form{size, size, bits, {colors.first, colors.second}};
        convert_frames(device, stream_of(stream), kernel_folder, frames, form, blue_first, memory.pointer);
    }
    result.owner = std::move(memory.owner);
    result.data = memory.pointer;
    return result;
}

}  // namespace

void bind_gpu_video(nb::module_& module) {
    nb::class_<GpuVideoObject>(module, "GpuVideoDecoder")
        .def(nb::init<const Codec<Medium::kVideo>&, std::tuple<int, int, int, int>, std::pair<int, int>, cuda::Device,
                      std::uintptr_t, nb::object, bool, bool>(),
             nb::kw_only(), nb::arg("codec"), nb::arg("crop"), nb::arg("scale"), nb::arg("device"), nb::arg("stream"),
             nb::arg("allocator").none(), nb::arg("reuse"), nb::arg("deep"))
        .def("set_chunk", &GpuVideoObject::set_chunk, nb::arg("frames"))
        .def("decode", &GpuVideoObject::decode, nb::arg("packets"))
        .def("flush", &GpuVideoObject::flush)
        .def("decode_all", &GpuVideoObject::decode_all, nb::arg("packets"))
        .def("form", &GpuVideoObject::form);
    module.def("convert_frames_to_planes", &convert, nb::kw_only(), nb::arg("buffers"), nb::arg("colors"),
               nb::arg("bits"), nb::arg("blue_first"), nb::arg("device"), nb::arg("stream"),
               nb::arg("allocator").none(), nb::arg("kernel_folder"));
}

}  // namespace spdl
