#include "bindings/av_reference_frames.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "av/shown_arrays.h"
#include "bindings/av_objects.h"
#include "bindings/buffer.h"
#include "bindings/frames.h"
#include "bindings/python_bytes.h"
#include "core/buffer.h"

namespace nb = nanobind;

namespace spdl {
namespace {

constexpr const char* kName = "an array";

// libav may drop the last frame that shows the bytes without the GIL.
std::shared_ptr<const PythonBytes> hold(nb::handle bytes) {
    return {new PythonBytes(bytes), [](const PythonBytes* object) {
                const nb::gil_scoped_acquire held;
                delete object;
            }};
}

nb::object video(nb::handle bytes, const std::string& pixel_format, int width, int height, int count,
                 std::pair<int, int> frame_rate, std::int64_t time) {
    const auto held = hold(bytes);
    FrameList list = run("create_reference_video_frame", kName, [&] {
        return show_pictures(held, held->get(), pixel_format, width, height, count,
                             {frame_rate.first, frame_rate.second}, time);
    });
    return wrap_frames<Medium::kVideo>(kName, std::move(list));
}

nb::object audio(nb::handle bytes, const std::string& sample_format, int channels, int samples, int sample_rate,
                 std::int64_t time) {
    const auto held = hold(bytes);
    FrameList list = run("create_reference_audio_frame", kName, [&] {
        return show_sound(held, held->get(), sample_format, channels, samples, sample_rate, time);
    });
    return wrap_frames<Medium::kAudio>(kName, std::move(list));
}

// Returns an int64 array with these bytes.
CpuBuffer copy_int64(nb::handle bytes, std::vector<std::size_t> shape, const nb::object& storage) {
    const PythonBytes held(bytes);
    const std::optional<Memory> memory = take_memory(storage);
    return CpuBuffer(run("convert_array", "convert_array", [&] {
        Buffer buffer = memory ? allocate_in(*memory, std::move(shape), ElementType::kInt64)
                               : allocate(std::move(shape), ElementType::kInt64);
        std::ranges::copy(held.get(), buffer.data);
        return buffer;
    }));
}

}  // namespace

void bind_av_reference_frames(nb::module_& module) {
    module.def("reference_video", &video, nb::arg("pixels"), nb::arg("pix_fmt"), nb::arg("width"), nb::arg("height"),
               nb::arg("count"), nb::arg("frame_rate"), nb::arg("time"));
    module.def("reference_audio", &audio, nb::arg("samples"), nb::arg("sample_fmt"), nb::arg("channels"),
               nb::arg("count"), nb::arg("sample_rate"), nb::arg("time"));
    module.def("copy_int64", &copy_int64, nb::arg("content"), nb::arg("shape"), nb::arg("storage").none());
}

}  // namespace spdl
