#include "bindings/av_bsf.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "av/bit_stream_filter.h"
#include "bindings/av_objects.h"
#include "bindings/frames.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// The Python object over bit-stream filters of one stream. Any number of threads may use it, one after the other.
template <Medium medium>
class BsfObject {
  public:
    BsfObject(const Codec<medium>& codec, const std::string& description)
        : filter_(run("BSF", "BSF", [&] { return std::make_unique<BitStreamFilter>(codec.stream, description); })) {}

    nb::object filter(PacketsOf<medium>& object, bool flush) {
        HeldPackets<medium> packets = object.take();
        PacketList list = run("BSF.filter", packets.name, [&] {
            const std::scoped_lock lock(mutex_);
            PacketList finished{filter_->output(), {}, packets.list.window};
            PacketList consumed = std::move(packets.list);
            for (PacketPtr& packet : consumed.packets) {
                filter_->add(std::move(packet), finished.packets);
            }
            if (flush) {
                filter_->flush(finished.packets);
            }
            return finished;
        });
        return wrap_packets<medium>(std::move(packets.name), std::move(list));
    }

    nb::object flush() {
        PacketList list = run("BSF.flush", "BSF", [&] {
            const std::scoped_lock lock(mutex_);
            PacketList rest{filter_->output(), {}, {}};
            filter_->flush(rest.packets);
            return rest;
        });
        return wrap_packets<medium>("BSF", std::move(list));
    }

  private:
    std::unique_ptr<BitStreamFilter> filter_;
    std::mutex mutex_;
};

template <Medium medium>
void bind_filter(nb::module_& module, const char* name) {
    using Object = BsfObject<medium>;
    nb::class_<Object>(module, name)
        .def(nb::init<const Codec<medium>&, const std::string&>(), nb::arg("codec"), nb::arg("description"))
        .def("filter", &Object::filter, nb::arg("packets"), nb::arg("flush"))
        .def("flush", &Object::flush);
}

}  // namespace

void bind_av_bsf(nb::module_& module) {
    bind_filter<Medium::kAudio>(module, "AudioBsf");
    bind_filter<Medium::kVideo>(module, "VideoBsf");
}

}  // namespace spdl
