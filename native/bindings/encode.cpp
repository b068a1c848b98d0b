#include "bindings/encode.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/buffer.h"
#include "bindings/native_call.h"
#include "bindings/numpy_array.h"
#include "bindings/owned_memory.h"
#include "bindings/python_bytes.h"
#include "ffmpeg/encode.h"
#include "ffmpeg/ffmpeg_decoder.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/frame_arrays.h"
#include "ffmpeg/packed_frame.h"
#include "ffmpeg/shown_pixels.h"
#include "image/jpeg/jpeg_encoder.h"
#include "image/load/resized_frame.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// An array of the caller's that can be used without the GIL.
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

// Runs `encode` without the GIL, and returns the file as a one-dimensional uint8 array.
template <typename Encode>
nb::object encoded(Encode&& encode) {
    auto file = std::make_unique<AlignedBuffer>();
    {
        const NativeCall native("encode");
        *file = encode();
    }
    std::uint8_t* const data = file->data();
    const std::size_t size[] = {file->size()};
    const nb::object owner = own_memory(std::move(file));
    return show_array(size, numpy_dtype('u', 1), {data, true, owner});
}

nb::object jpeg(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, int quality,
                std::pair<int, int> chroma_grid) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    return encoded([&] {
        return encode_jpeg(FfmpegFrame(held.show()).picture(), {quality, {chroma_grid.first, chroma_grid.second}});
    });
}

nb::object picture(nb::handle pixels, std::pair<int, int> size, std::string pixel_format, std::string encoder,
                   OptionList options, std::string muxer) {
    const HeldPixels held(pixels, size, std::move(pixel_format));
    const EncodeOptions how{std::move(encoder), std::move(options), std::move(muxer)};
    return encoded([&] { return encode_picture(*held.show(), how); });
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

void bind_encode(nb::module_& module) {
    module.def("encode_jpeg", &jpeg, nb::arg("pixels"), nb::arg("size"), nb::arg("pix_fmt"), nb::arg("quality"),
               nb::arg("chroma_grid"));
    module.def("encode_picture", &picture, nb::arg("pixels"), nb::arg("size"), nb::arg("pix_fmt"), nb::arg("encoder"),
               nb::arg("options"), nb::arg("muxer"));
    module.def("resize_picture", &resize, nb::arg("pixels"), nb::arg("size"), nb::arg("pix_fmt"), nb::arg("request"));
    module.def("filter_picture", &filter, nb::arg("pixels"), nb::arg("size"), nb::arg("pix_fmt"), nb::arg("filters"));
    module.def(
        "jpeg_takes",
        [](const std::string& pixel_format) { return jpeg_takes(ffmpeg_format_name(find_pixel_format(pixel_format))); },
        nb::arg("pix_fmt"));
    module.def(
        "encoder_takes",
        [](const std::string& encoder, const std::string& pixel_format) {
            return encoder_takes(encoder, find_pixel_format(pixel_format));
        },
        nb::arg("encoder"), nb::arg("pix_fmt"));
}

}  // namespace spdl
