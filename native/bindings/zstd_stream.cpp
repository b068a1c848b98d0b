#include "bindings/zstd_stream.h"

#include <utility>

#include "archive/zstd_stream.h"
#include "bindings/gil.h"
#include "core/aligned_buffer.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// A stream with its unused input. One thread uses it at a time: others get a ValueError, as with a generator.
class HeldStream {
  public:
    void push(nb::bytes compressed) {
        const Turn turn(busy_);
        held_ = std::move(compressed);
        place_ = 0;
    }

    // Returns up to `most` bytes. If it returns none, it needs more input.
    nb::bytes pull(std::size_t most) {
        const Turn turn(busy_);
        const AlignedBuffer into(most);
        const Bytes left{static_cast<const std::uint8_t*>(held_.data()) + place_, held_.size() - place_};
        ZstdStream::Step step{};
        {
            const ReleasedGil released;
            step = stream_.inflate(left, {into.data(), most});
        }
        place_ += step.taken;
        return nb::bytes(into.data(), step.made);
    }

    [[nodiscard]] bool between_frames() {
        const Turn turn(busy_);
        return stream_.between_frames();
    }

  private:
    // The lock on the object is released together with the GIL.
    class Turn {
      public:
        explicit Turn(bool& busy) : busy_(busy) {
            if (busy) {
                throw nb::value_error("another thread is reading from this zstd stream");
            }
            busy = true;
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { busy_ = false; }

      private:
        bool& busy_;
    };

    bool busy_ = false;
    ZstdStream stream_;
    nb::bytes held_{"", 0};
    std::size_t place_ = 0;
};

}  // namespace

void bind_zstd_stream(nb::module_& module) {
    nb::class_<HeldStream>(module, "ZstdStream")
        .def(nb::init<>())
        .def("push", &HeldStream::push, nb::arg("compressed"), nb::lock_self())
        .def("pull", &HeldStream::pull, nb::arg("most"), nb::lock_self())
        .def("between_frames", &HeldStream::between_frames, nb::lock_self());
}

}  // namespace spdl
