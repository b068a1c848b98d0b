#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/image_objects.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/numpy_array.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "core/parallel.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/encode.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/frames.h"
#include "image/jpeg/jpeg.h"
#include "image/load/batch.h"
#include "image/load/one_image.h"
#include "image/tiff/tiff.h"
#include "image/write/pixel_writers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

PacketsObject demux_file(nb::str path, std::string name, const DemuxOptions& options) {
    const PythonPath encoded(std::move(path));
    auto image = run("demux_image", name, [&] {
        const Bytes bytes = thread_scratch().file.read(encoded.get());
        // Packets outlive the thread's buffer.
        auto owned = std::make_shared<AlignedBuffer>(bytes.size());
        std::copy(bytes.begin(), bytes.end(), owned->data());
        return demux_image(owned, {Bytes(owned->data(), bytes.size()), {}, nullptr}, options);
    });
    return wrap_packets(std::move(name), std::move(image), nullptr);
}

PacketsObject demux_bytes(nb::handle source, std::string name, const DemuxOptions& options,
                          std::optional<std::uint64_t> page) {
    auto bytes = std::make_shared<PythonBytes>(source);
    auto image =
        run("demux_image", name, [&] { return demux_image(bytes, {bytes->get(), {}, nullptr, page}, options); });
    return wrap_packets(std::move(name), std::move(image), std::move(bytes));
}

std::vector<std::uint64_t> find_pages(nb::handle source, const std::string& name, std::optional<std::size_t> most) {
    const PythonBytes bytes(source);
    return run("load_image", name,
               [&] { return tiff_pages(bytes.get(), most.value_or(std::numeric_limits<std::size_t>::max())); });
}

FramesObject decode_to_size(PacketsObject& object, const LoadOptions& options, const DecodeOptions& decode) {
    Packets packets = object.take();
    DecodedImage decoded = run("decode_packets", packets.name, [&] {
        const auto consumed = std::move(packets.image);
        return decode_resized(*consumed, options, decode, make_packed_frame);
    });
    if (decoded.dropped_pages) {
        warn_of_pages();
    }
    return wrap_frames(std::move(packets.name), std::move(decoded));
}

FramesObject decode_through_filters(PacketsObject& object, const std::string& filters, const DecodeOptions& options) {
    Packets packets = object.take();
    DecodedImage decoded = run("decode_packets", packets.name, [&] {
        const auto consumed = std::move(packets.image);
        const FrameMaker make_rgb = begins_with_rgb(filters) ? make_packed_frame : nullptr;
        if (DecodedImage stored = decode_whole(*consumed, options, make_stored_frame, make_rgb);
            stored.frame != nullptr) {
            if (!filters.empty()) {
                stored.frame = filtered(std::move(stored.frame), filters);
            }
            return stored;
        }
        check_jpeg(consumed->image().bytes, options.max_pixels);
        return DecodedImage{decode_filtered(*consumed, filters, options), &ffmpeg_backend};
    });
    if (decoded.dropped_pages) {
        warn_of_pages();
    }
    return wrap_frames(std::move(packets.name), std::move(decoded));
}

CpuBuffer convert_one(FramesObject& object, const nb::object& storage) {
    Frames frames = object.take();
    const std::optional<Memory> memory = take_memory(storage);
    const Backend* const backend = frames.image.backend;
    CpuBuffer buffer(run("convert_frames", frames.name,
                         [&] { return frame_to_array(std::move(frames.image.frame), memory ? &*memory : nullptr); }));
    buffer.report.backends = {backend};
    return buffer;
}

CpuBuffer convert_many(const nb::list& objects, const nb::object& storage) {
    std::vector<Frames> frames;
    std::vector<const Backend*> backends;
    frames.reserve(objects.size());
    for (const nb::handle object : objects) {
        if (!nb::isinstance<FramesObject>(object)) {
            throw nb::type_error(("convert_frames takes ImageFrames, got " +
                                  std::string(nb::type_name(object.type()).c_str()) + " among the frames")
                                     .c_str());
        }
        frames.push_back(nb::cast<FramesObject&>(object).take());
        backends.push_back(frames.back().image.backend);
    }
    const std::optional<Memory> memory = take_memory(storage);
    CpuBuffer buffer(run("convert_frames", "convert_frames", [&] {
        // The frames are freed here, without the GIL, even if they cannot be converted.
        const auto consumed = std::move(frames);
        std::vector<const Frame*> images;
        images.reserve(consumed.size());
        for (const Frames& frame : consumed) {
            images.push_back(frame.image.frame.get());
        }
        return frames_to_array(images, memory ? &*memory : nullptr);
    }));
    buffer.report.backends = std::move(backends);
    return buffer;
}

// Returns the content of `object`, which shares the image.
Packets shared(const PacketsObject& object) {
    return object.read([](const Packets& packets) { return packets; });
}

CodecInfo info(const PacketsObject& object) {
    const Packets packets = shared(object);
    return run("ImagePackets.codec", packets.name, [&] { return packets.image->info(); });
}

std::string represent_packets(const PacketsObject& object) {
    const auto name = object.find([](const Packets& packets) { return packets.name; });
    return "ImagePackets(" + name.value_or("consumed") + ")";
}

std::string represent_frames(const FramesObject& object) {
    const auto text = object.find([](const Frames& frames) {
        const Picture picture = frames.image.frame->picture();
        return frames.name + ", " + std::to_string(picture.size.width) + "x" + std::to_string(picture.size.height) +
               ", " + std::string(picture.pixel_format);
    });
    return "ImageFrames(" + text.value_or("consumed") + ")";
}

nb::dict metadata(const FramesObject& object) {
    nb::dict result;
    const FrameProperties properties =
        object.read([](const Frames& frames) { return frames.image.frame->properties(); });
    for (const auto& [key, value] : properties.metadata) {
        result[key.c_str()] =
            nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape"));
    }
    return result;
}

double pts(const Frames& frames) {
    const FrameProperties properties = frames.image.frame->properties();
    const std::int64_t ticks = properties.time == FrameProperties::kNoTime ? 0 : properties.time;
    return static_cast<double>(ticks) *
           (properties.time_base.numerator / static_cast<double>(properties.time_base.denominator));
}

std::pair<int, int> fraction(Rational value) {
    return {value.numerator, value.denominator};
}

// Returns a getter of the result of `look` on the frames.
template <typename Look>
auto read(Look look) {
    return [look](const FramesObject& self) { return self.read(look); };
}

void bind_codec(nb::module_& module) {
    nb::class_<CodecInfo>(module, "ImageCodec",
                          "The properties that an encoded image states about itself.\n"
                          "\n"
                          "Example:\n"
                          "    >>> codec = demux_image(photo).codec\n"
                          "    >>> codec.name, codec.width, codec.height\n"
                          "    ('mjpeg', 500, 375)")
        .def_prop_ro(
            "name", [](const CodecInfo& self) { return self.name; }, "The codec by FFmpeg's name.")
        .def_prop_ro(
            "width", [](const CodecInfo& self) { return self.size.width; }, "In pixels.")
        .def_prop_ro(
            "height", [](const CodecInfo& self) { return self.size.height; }, "In pixels.")
        .def_prop_ro(
            "pix_fmt", [](const CodecInfo& self) { return self.pixel_format; },
            "The stored pixel format by FFmpeg's name.")
        .def_prop_ro(
            "time_base", [](const CodecInfo& self) { return fraction(self.time_base); },
            "The unit of timestamps in seconds, as (numerator, denominator).")
        .def_prop_ro(
            "sample_aspect_ratio", [](const CodecInfo& self) { return fraction(self.sample_aspect_ratio); },
            "The width of a pixel divided by its height, as (numerator, denominator); (0, 1) if unknown.")
        .def("__repr__", [](const CodecInfo& self) {
            return "ImageCodec(" + self.name + ", " + std::to_string(self.size.width) + "x" +
                   std::to_string(self.size.height) + ", " + self.pixel_format + ")";
        });
}

void bind_packets(nb::module_& module) {
    nb::class_<PacketsObject> bound(
        module, "ImagePackets",
        "One encoded image, found by demux_image. decode_packets consumes it.\n"
        "\n"
        "The attributes of a JPEG come from its header. Any other image is decoded for them, once, with\n"
        "the default limits, when the first attribute is read. That may raise RuntimeError.\n"
        "\n"
        "Example:\n"
        "    >>> packets = demux_image(photo)\n"
        "    >>> frames = decode_packets(packets.clone())\n"
        "    >>> packets.width, packets.height  # Only the clone was consumed.\n"
        "    (500, 375)");
    bound.def_prop_ro(
             "width", [](const PacketsObject& self) { return info(self).size.width; }, "In pixels.")
        .def_prop_ro(
            "height", [](const PacketsObject& self) { return info(self).size.height; }, "In pixels.")
        .def_prop_ro(
            "pix_fmt", [](const PacketsObject& self) { return info(self).pixel_format; },
            "The stored pixel format by FFmpeg's name.")
        .def_prop_ro("codec", &info, "The properties that the image states about itself.")
        .def(
            "clone", [](const PacketsObject& self) { return PacketsObject(shared(self)); },
            "Packets of the same image, sharing its data, to be consumed on their own.")
        .def("__repr__", &represent_packets);
    bind_pickling(bound);
}

void bind_frames(nb::module_& module) {
    nb::class_<FramesObject>(module, "ImageFrames",
                             "One decoded image, made by decode_packets. convert_frames consumes it.\n"
                             "\n"
                             "Example:\n"
                             "    >>> frames = decode_packets(demux_image(photo))\n"
                             "    >>> frames.width, frames.height, frames.pix_fmt, frames.backend\n"
                             "    (500, 375, 'rgb24', 'libjpeg-turbo')")
        .def_prop_ro("width", read([](const Frames& frames) { return frames.image.frame->picture().size.width; }),
                     "In pixels.")
        .def_prop_ro("height", read([](const Frames& frames) { return frames.image.frame->picture().size.height; }),
                     "In pixels.")
        .def_prop_ro("pix_fmt",
                     read([](const Frames& frames) { return std::string(frames.image.frame->picture().pixel_format); }),
                     "The pixel format by FFmpeg's name.")
        .def_prop_ro("num_planes", read([](const Frames& frames) { return frames.image.frame->num_planes(); }),
                     "The number of memory planes that hold the pixels.")
        .def_prop_ro("backend", read([](const Frames& frames) { return backend_name(frames.image.backend); }),
                     "The backend that decoded the image, by the name that `decode_config` takes.")
        .def_prop_ro(
            "metadata", &metadata,
            "The metadata that FFmpeg's decoder found beside the pixels, as text by key. Empty for the other backends.")
        .def_prop_ro("pts", read(&pts), "The presentation time in seconds.")
        .def("clone", read([](const Frames& frames) {
                 return wrap_frames(frames.name, {frames.image.frame->clone(), frames.image.backend});
             }),
             "Frames of the same image, sharing its pixels, to be consumed on their own.")
        .def("__repr__", &represent_frames);
}

std::pair<std::optional<CpuBuffer>, Failures> load(const nb::tuple& objects, const LoadOptions& options,
                                                   const std::vector<BoxSides>& boxes, const RandomCrop* random,
                                                   std::vector<bool> flips, const ColorJitter* jitter,
                                                   const DemuxOptions& demux, const DecodeOptions& decode,
                                                   int num_threads, bool keep_failed, std::optional<int> page,
                                                   const nb::object& storage) {
    const Inputs inputs(objects);
    const CropsAndFlips crops = make_crops(boxes, random, std::move(flips), jitter);
    const BatchOptions batch_options{demux, decode, num_threads, keep_failed, page};
    const std::optional<Memory> memory = take_memory(storage);
    Batch batch;
    {
        const NativeCall native("load_image_batch");
        batch = load_batch(inputs.inputs, options, crops, batch_options, memory ? &*memory : nullptr);
    }
    if (batch.dropped_pages) {
        warn_of_pages();
    }
    std::optional<CpuBuffer> buffer;
    if (batch.images.data != nullptr) {
        buffer.emplace(std::move(batch.images));
        buffer->report.backends = std::move(batch.backends);
    }
    return {std::move(buffer), take_failures(std::move(batch.failures))};
}

std::pair<std::vector<std::pair<int, int>>, Failures> sizes_of(const nb::tuple& objects, bool upright,
                                                               const DemuxOptions& demux, const DecodeOptions& decode,
                                                               int num_threads, std::optional<int> page) {
    const Inputs inputs(objects);
    Sizes found;
    {
        const NativeCall native("load_image_batch");
        found = find_sizes(inputs.inputs, upright, {demux, decode, num_threads, false, page});
    }
    std::vector<std::pair<int, int>> sizes;
    for (const Size& size : found.sizes) {
        sizes.emplace_back(size.width, size.height);
    }
    return {std::move(sizes), take_failures(std::move(found.failures))};
}

void resize_into(nb::handle pixels, std::pair<int, int> size, const LoadOptions& options, const nb::object& result) {
    const PythonBytes input(pixels);
    const std::optional<Memory> memory = take_memory(result);
    const Size from{size.first, size.second};
    if (from.width < 1 || from.height < 1 || !memory || input.get().size() != rgb_bytes(from) ||
        memory->size != options.format.image_bytes(options.target)) {
        throw nb::value_error("the memory does not fit the sizes");
    }
    const NativeCall native("resize");
    resize_pixels(input.get(), from, options, memory->data);
}

// Pictures that an array of bytes or floats shows, (N, C, H, W) with any strides. Created and destroyed with the GIL
// held.
class PictureView : NonCopyable {
  public:
    explicit PictureView(nb::handle array) {
        if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDED_RO) != 0) {
            throw nb::python_error();
        }
    }
    ~PictureView() { PyBuffer_Release(&view_); }

    [[nodiscard]] PictureValues get() const {
        PictureValues pictures{static_cast<const std::uint8_t*>(view_.buf), {}, {}, view_.itemsize == sizeof(float)};
        if (view_.ndim != static_cast<int>(pictures.shape.size())) {
            throw nb::value_error("pictures have four sides");
        }
        std::copy_n(view_.shape, view_.ndim, pictures.shape.begin());
        std::copy_n(view_.strides, view_.ndim, pictures.strides.begin());
        return pictures;
    }

  private:
    Py_buffer view_{};
};

// Returns for each array whether its floats are a picture's.
std::vector<bool> write_each(const nb::tuple& arrays, const LoadOptions& options, const PerChannel& scale,
                             const nb::tuple& results, int num_threads) {
    std::deque<PictureView> views;
    std::vector<PictureValues> pictures;
    std::vector<Memory> memory;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        pictures.push_back(views.emplace_back(arrays[i]).get());
        memory.push_back(*take_memory(nb::borrow(results[i])));
        if (memory.back().size != pictures.back().size() * options.format.element()) {
            throw nb::value_error("the memory does not fit the pictures");
        }
    }
    // Not of bool: threads write to it.
    std::vector<char> in_range(pictures.size());
    {
        const NativeCall native("write pictures");
        run_parallel(num_threads, 0, pictures.size(), [&](std::size_t i) {
            in_range[i] = static_cast<char>(write_pictures(pictures[i], options.format, scale, memory[i].data));
        });
    }
    return {in_range.begin(), in_range.end()};
}

// The caller's array that can be used without the GIL.
class HeldPixels {
  public:
    HeldPixels(nb::handle pixels, std::pair<int, int> size, std::string pixel_format)
        : bytes_(pixels), size_{size.first, size.second}, format_(std::move(pixel_format)) {}

    [[nodiscard]] FramePtr show() const { return show_pixels(bytes_.get(), find_pixel_format(format_), size_); }

  private:
    PythonBytes bytes_;
    Size size_;
    std::string format_;
};

// Runs `encode` without the GIL, and returns the file as an array.
template <typename Encode>
nb::object encoded_bytes(Encode&& encode) {
    AlignedBuffer file;
    {
        const NativeCall native("encode");
        file = encode();
    }
    return show_bytes(std::move(file));
}

nb::object jpeg(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, int quality,
                std::pair<int, int> chroma_grid) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    return encoded_bytes([&] {
        return encode_jpeg(FfmpegFrame(held.show()).picture(), {quality, {chroma_grid.first, chroma_grid.second}});
    });
}

nb::object picture(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, std::string encoder,
                   OptionList options, std::string muxer) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    const EncodeOptions how{std::move(encoder), std::move(options), std::move(muxer)};
    return encoded_bytes([&] { return encode_picture(*held.show(), how); });
}

CpuBuffer resize(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, const LoadOptions& options) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    const NativeCall native("resize");
    ThreadScratch& scratch = thread_scratch();
    FfmpegDecoder decoder;
    const ImageShape shape = decoder.open(held.show());
    return CpuBuffer(frame_to_array(resized_frame(decoder, shape, options, make_packed_frame, scratch), nullptr));
}

CpuBuffer filter(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, const std::string& filters) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    const NativeCall native("filter");
    return CpuBuffer(
        frame_to_array(std::make_unique<FfmpegFrame>(filter_frame(*held.show(), {0, 1}, filters)), nullptr));
}

}  // namespace

// The text is always the same, so that Python shows it once.
void warn_of_pages() {
    constexpr const char* kText =
        "a TIFF has several pages, of which only the first is loaded: pass `pages`, which is 0 for the first one, and "
        "see count_pages";
    if (PyErr_WarnEx(PyExc_UserWarning, kText, 1) != 0) {
        throw nb::python_error();
    }
}

void bind_images(nb::module_& module) {
    bind_codec(module);
    bind_packets(module);
    bind_frames(module);
    bind_options(module);
    module.def("demux_file", &demux_file, "path"_a, "name"_a, "options"_a);
    module.def("demux_bytes", &demux_bytes, "source"_a, "name"_a, "options"_a, "page"_a.none());
    module.def("tiff_pages", &find_pages, "source"_a, "name"_a, "most"_a.none());
    module.def("decode_resized", &decode_to_size, "packets"_a, "request"_a, "options"_a);
    module.def("with_named_options", &with_named_options, "filters"_a);
    module.def("decode_filtered", &decode_through_filters, "packets"_a, "filters"_a, "options"_a);
    module.def("convert_one", &convert_one, "frames"_a, "storage"_a.none());
    module.def("convert_many", &convert_many, "frames"_a, "storage"_a.none());
}

void bind_batch(nb::module_& module) {
    module.def("resize", &resize_into, "pixels"_a, "size"_a, "request"_a, "result"_a);
    module.def("write_pictures", &write_each, nb::kw_only(), "arrays"_a, "request"_a, "scale"_a, "results"_a,
               "num_threads"_a);
    module.def("image_sizes", &sizes_of, nb::kw_only(), "sources"_a, "upright"_a, "demux"_a, "decode"_a,
               "num_threads"_a, "page"_a.none());
    module.def("load_batch", &load, nb::kw_only(), "sources"_a, "request"_a, "boxes"_a, "random"_a.none(), "flips"_a,
               "jitter"_a.none(), "demux"_a, "decode"_a, "num_threads"_a, "keep_failed"_a, "page"_a.none() = nb::none(),
               "storage"_a.none());
}

void bind_encode(nb::module_& module) {
    module.def("encode_jpeg", &jpeg, "pixels"_a, "size"_a, "pix_fmt"_a, "quality"_a, "chroma_grid"_a);
    module.def("encode_picture", &picture, "pixels"_a, "size"_a, "pix_fmt"_a, "encoder"_a, "options"_a, "muxer"_a);
    module.def("resize_picture", &resize, "pixels"_a, "size"_a, "pix_fmt"_a, "request"_a);
    module.def("filter_picture", &filter, "pixels"_a, "size"_a, "pix_fmt"_a, "filters"_a);
    module.def(
        "jpeg_takes",
        [](const std::string& pixel_format) { return jpeg_takes(ffmpeg_format_name(find_pixel_format(pixel_format))); },
        "pix_fmt"_a);
    module.def(
        "encoder_takes",
        [](const std::string& encoder, const std::string& pixel_format) {
            return encoder_takes(encoder, find_pixel_format(pixel_format));
        },
        "encoder"_a, "pix_fmt"_a);
}

}  // namespace spdl
