#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "cuda/media_libraries.h"
#include "gpu/image_batch.h"
#include "gpu/nvdec.h"
#include "gpu/video_reader.h"

namespace nb = nanobind;
using namespace nb::literals;

#include "core/non_copyable.h"

namespace spdl {
namespace {

CudaBuffer transfer_to_device(const CpuBuffer& from, cuda::Device device, std::uintptr_t stream,
                              const nb::object& allocator) {
    const Buffer& source = from.buffer;
    CudaBuffer result{nullptr, 0, source.shape, source.type, device, stream, from.report};
    cuda::DeviceMemory memory;
    if (!allocator.is_none()) {
        memory = allocate_by(nb::cast<nb::tuple>(allocator), device, source.bytes(), stream);
    }
    const NativeCall native("transfer_buffer");
    if (allocator.is_none()) {
        memory = cuda::allocate_device(device, source.bytes(), stream_of(stream));
    }
    cuda::copy_to_device(source, memory.pointer, device, stream_of(stream));
    result.owner = std::move(memory.owner);
    result.data = memory.pointer;
    return result;
}

Buffer copy_to_host(const CudaBuffer& from) {
    const NativeCall native("transfer_buffer_cpu");
    Buffer buffer = allocate(from.shape, from.type);
    cuda::copy_to_host(from.data, buffer, from.device, stream_of(from.stream));
    return buffer;
}

CpuBuffer transfer_to_host(const CudaBuffer& from) {
    CpuBuffer result(copy_to_host(from));
    result.report = from.report;
    return result;
}

// Returns the only array of an array of one, in the same memory.
CudaBuffer first_of(const CudaBuffer& from) {
    if (from.shape.empty() || from.shape.front() != 1) {
        throw nb::value_error("this is no array of one array");
    }
    CudaBuffer result = from;
    result.shape.erase(result.shape.begin());
    return result;
}

int device_count() {
    const ReleasedGil released;
    return cuda::device_count();
}

// Returns the file and the version of one of NVIDIA's libraries.
std::pair<std::string, std::string> library(const std::string& name) {
    const ReleasedGil released;
    if (name == "nvjpeg") {
        return {cuda::nvjpeg().path, cuda::nvjpeg_version()};
    }
    if (name == "nvrtc") {
        return {cuda::nvrtc().path, cuda::nvrtc_version()};
    }
    if (name == "nvcuvid") {
        return {cuda::nvcuvid().path, {}};
    }
    const int version = cuda::driver_version();
    return {cuda::driver().path, std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

nb::dict cuda_interface(const CudaBuffer& self) {
    nb::dict interface = array_interface(self.data, self.shape, self.type);
    // No stream has any work left on it.
    interface["stream"] = nb::none();
    return interface;
}

nb::object as_ndarray(nb::handle_t<CudaBuffer> self) {
    const auto& buffer = nb::cast<const CudaBuffer&>(self);
    return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void*>(buffer.data), buffer.shape.size(),
                                               buffer.shape.data(), self, nullptr, dlpack_type(buffer.type),
                                               nb::device::cuda::value, buffer.device));
}

nb::object dlpack(nb::handle_t<CudaBuffer> self, nb::kwargs options) {
    // The consumer's stream need not wait for anything: the transfer has finished.
    if (options.contains("stream")) {
        nb::del(options["stream"]);
    }
    return as_ndarray(self).attr("__dlpack__")(**options);
}

std::string represent(const CudaBuffer& self) {
    return "CUDABuffer(shape=" + std::string(nb::repr(shape_tuple(self.shape)).c_str()) +
           ", dtype=" + dtype_name(self.type) + ", device_index=" + std::to_string(self.device) + ")";
}

using Loaded = std::pair<std::optional<CudaBuffer>, Failures>;

// Returns None if the CPU should load the batch.
std::optional<Loaded> load(const nb::tuple& objects, const LoadOptions& options, const std::vector<BoxSides>& boxes,
                           const RandomCrop* random, std::vector<bool> flips, const DemuxOptions& demux,
                           const DecodeOptions& decode, int num_threads, bool keep_failed, std::size_t least,
                           cuda::Device device, std::uintptr_t stream, const nb::object& allocator,
                           std::string kernel_folder) {
    const Inputs inputs(objects);
    const CropsAndFlips crops = make_crops(boxes, random, std::move(flips), nullptr);
    const BatchOptions batch{demux, decode, num_threads, keep_failed};
    const GpuTarget target{device, stream_of(stream), std::move(kernel_folder),
                           make_allocator(allocator, device, stream)};
    std::optional<GpuBatch> loaded;
    {
        const NativeCall native("load_image_batch");
        loaded = load_batch_on_gpu(inputs.inputs, options, crops, batch, least, target);
    }
    if (!loaded) {
        return std::nullopt;
    }
    Loaded result{std::nullopt, take_failures(std::move(loaded->failures))};
    if (loaded->memory.pointer != 0) {
        result.first = CudaBuffer{std::move(loaded->memory.owner),
                                  loaded->memory.pointer,
                                  std::move(loaded->shape),
                                  options.format.type(),
                                  device,
                                  stream,
                                  {nb::tuple(), std::move(loaded->backends)}};
    }
    return result;
}

// Throws what keeps images from being decoded on a device.
void prepare(cuda::Device device, const std::string& kernel_folder) {
    const NativeCall native("prepare kernels");
    cuda::nvjpeg();
    cuda::load_kernels(device, kernel_folder);
}

// The Python object over the decoder of one video. Any number of threads may use it, one after the other.
class GpuVideoObject : NonCopyable {
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
            // A packet makes a frame; in some codecs, a few more.
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

void bind_cuda(nb::module_& module) {
    nb::class_<CudaBuffer> buffer(
        module, "CUDABuffer", nb::type_slots(report_slots<CudaBuffer>()),
        "A C-contiguous array on a GPU, made by transfer_buffer.\n"
        "\n"
        "``to_torch``, ``to_numba`` and ``to_jax`` (or anything that reads ``__cuda_array_interface__``\n"
        "or DLPack) view it without a copy; the views keep its memory alive. When the last one goes,\n"
        "the memory is used again after all work that the default stream has been given until then.\n"
        "If other streams use it, keep it until they are done.\n"
        "\n"
        "Example:\n"
        "    >>> config = cuda_config(device_index=0)  # doctest: +SKIP\n"
        "    >>> transfer_buffer(load_image(photo), device_config=config).device_index  # doctest: +SKIP\n"
        "    0");
    buffer.def_prop_ro("__cuda_array_interface__", &cuda_interface, "CUDA's array interface, version 3.")
        .def_prop_ro("nbytes", &CudaBuffer::bytes, "The size in bytes.")
        .def_prop_ro(
            "device_index", [](const CudaBuffer& self) { return self.device; },
            "The GPU's number among those that this process sees, from 0.")
        .def("__dlpack__", &dlpack, "options"_a, "The array as a DLPack capsule.")
        .def(
            "__dlpack_device__",
            [](nb::handle_t<CudaBuffer> self) { return as_ndarray(self).attr("__dlpack_device__")(); },
            "The device, as DLPack numbers it: CUDA and its index.")
        .def("__repr__", &represent);
    bind_array(buffer, "CUDABuffer");
    module.def("cuda_device_count", &device_count);
    module.def("cuda_device_names", &cuda::device_names);
    module.def("cuda_library", &library, "name"_a);
    module.def("cuda_search", &cuda::set_search_folders, "folders"_a);
    module.def("transfer_to_device", &transfer_to_device, "buffer"_a, "device"_a, "stream"_a, "allocator"_a.none());
    module.def("first_of", &first_of, "buffer"_a);
    module.def("transfer_to_host", &transfer_to_host, "buffer"_a);
}

void bind_gpu_images(nb::module_& module) {
    module.def("load_batch_on_gpu", &load, nb::kw_only(), "sources"_a, "request"_a, "boxes"_a, "random"_a.none(),
               "flips"_a, "demux"_a, "decode"_a, "num_threads"_a, "keep_failed"_a, "least"_a, "device"_a, "stream"_a,
               "allocator"_a.none(), "kernel_folder"_a);
    module.def("prepare_gpu_images", &prepare, "device"_a, "kernel_folder"_a);
    module.def("kernel_source", &cuda::kernel_source);
}

void bind_gpu_video(nb::module_& module) {
    nb::class_<GpuVideoObject>(module, "GpuVideoDecoder")
        .def(nb::init<const Codec<Medium::kVideo>&, std::tuple<int, int, int, int>, std::pair<int, int>, cuda::Device,
                      std::uintptr_t, nb::object, bool, bool>(),
             nb::kw_only(), "codec"_a, "crop"_a, "scale"_a, "device"_a, "stream"_a, "allocator"_a.none(), "reuse"_a,
             "deep"_a)
        .def("set_chunk", &GpuVideoObject::set_chunk, "frames"_a)
        .def("decode", &GpuVideoObject::decode, "packets"_a)
        .def("flush", &GpuVideoObject::flush)
        .def("decode_all", &GpuVideoObject::decode_all, "packets"_a)
        .def("form", &GpuVideoObject::form);
    module.def("convert_frames_to_planes", &convert, nb::kw_only(), "buffers"_a, "colors"_a, "bits"_a, "blue_first"_a,
               "device"_a, "stream"_a, "allocator"_a.none(), "kernel_folder"_a);
}

}  // namespace spdl
