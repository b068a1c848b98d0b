#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <utility>

#include "bindings/consumable.h"
#include "bindings/native_call.h"
#include "core/media_error.h"
#include "media/decoded_image.h"

namespace spdl {

struct Frames {
    static constexpr const char* kConsumed =
        "these ImageFrames were consumed by convert_frames or a FilterGraph: call clone() first to use them again";

    std::string name;
    DecodedImage image;

    [[nodiscard]] std::size_t bytes() const { return image.frame->bytes(); }
    void free() { image.frame.reset(); }
};

using FramesObject = Consumable<Frames>;

inline FramesObject wrap_frames(std::string name, DecodedImage image) {
    return FramesObject(Frames{std::move(name), std::move(image)});
}

// Runs `work`, the native part of the Python function `call`. Its errors say which image they are about.
template <typename Work>
auto run(const char* call, const std::string& name, Work&& work) {
    const NativeCall native(call);
    try {
        return work();
    } catch (const MediaError& error) {
        throw MediaError(name + ": " + error.what());
    }
}

}  // namespace spdl
