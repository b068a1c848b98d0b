#pragma once

#include <nanobind/nanobind.h>

#include "bindings/av_objects.h"
#include "bindings/image_packets.h"

namespace spdl {

// Packets as bytes, for pickle.

nanobind::object serialize(const PacketsObject& object);
nanobind::object serialize(const PacketsOf<Medium::kAudio>& object);
nanobind::object serialize(const PacketsOf<Medium::kVideo>& object);

// Return the packets in such bytes. They stay where they are unless `copy`.
void deserialize(nanobind::handle bytes, bool copy, PacketsObject*& made);
void deserialize(nanobind::handle bytes, bool copy, PacketsOf<Medium::kAudio>*& made);
void deserialize(nanobind::handle bytes, bool copy, PacketsOf<Medium::kVideo>*& made);

// Adds the methods that pickle calls, and those that take its bytes.
template <typename Object>
void bind_pickling(nanobind::class_<Object>& bound) {
    const auto restore = [](bool copy) {
        return [copy](const nanobind::object& data) {
            Object* made = nullptr;
            deserialize(data, copy, made);
            return made;
        };
    };
    bound
        .def_static("deserialize", restore(true), nanobind::arg("data"), nanobind::rv_policy::take_ownership,
                    "Packets from the bytes that `__getstate__` makes, which are copied.\n"
                    "\n"
                    "Damaged bytes are a RuntimeError.")
        .def_static("deserialize_view", restore(false), nanobind::arg("data"), nanobind::rv_policy::take_ownership,
                    "Packets that lie in the given bytes, which they keep alive. Do not change them meanwhile.\n"
                    "\n"
                    "Damaged bytes are a RuntimeError.")
        .def(
            "__getstate__", [](const Object& self) { return serialize(self).attr("tobytes")(); },
            "The packets as bytes, for `deserialize` and `deserialize_view`.")
        .def("_serialize", [](const Object& self) { return serialize(self); })
        .def(
            "__reduce_ex__",
            [](nanobind::handle_t<Object> self, int protocol) {
                return nanobind::module_::import_("spdl.io._av.pickling").attr("reduce_packets")(self, protocol);
            },
            nanobind::arg("protocol"), "For pickle. With protocol 5 the packets need not be copied.");
}

}  // namespace spdl
