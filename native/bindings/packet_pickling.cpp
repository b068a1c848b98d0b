#include "bindings/packet_pickling.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "av/packet_archive.h"
#include "bindings/frames.h"
#include "bindings/numpy_array.h"
#include "bindings/owned_memory.h"
#include "bindings/python_bytes.h"
#include "core/aligned_buffer.h"
#include "ffmpeg/ffmpeg_packet.h"
#include "image/load/steps.h"

namespace nb = nanobind;

namespace spdl {
namespace {

constexpr const char* kName = "deserialize";

// The bytes of a pickle, and what keeps them in place. libav may drop the last packet in them without the GIL.
struct HeldArchive {
    std::shared_ptr<const void> owner;
    Bytes bytes;
};

HeldArchive hold(nb::handle object, bool copy) {
    const std::shared_ptr<const PythonBytes> held(new PythonBytes(object), [](const PythonBytes* bytes) {
        const nb::gil_scoped_acquire acquired;
        delete bytes;
    });
    if (!copy) {
        return {held, held->get()};
    }
    const ReleasedGil released;
    auto copied = std::make_shared<AlignedBuffer>(held->get().size());
    std::ranges::copy(held->get(), copied->data());
    return {copied, {copied->data(), copied->size()}};
}

// Returns what `archive` makes, without the GIL, as an array.
template <typename Archive>
nb::object serialized(const std::string& name, const Archive& make) {
    auto memory = std::make_unique<AlignedBuffer>();
    run("pickle", name, [&] {
        const std::vector<std::uint8_t> bytes = make();
        *memory = AlignedBuffer(bytes.size());
        std::ranges::copy(bytes, memory->data());
    });
    std::uint8_t* const data = memory->data();
    const std::size_t size[] = {memory->size()};
    const nb::object owner = own_memory(std::move(memory));
    return show_array(size, numpy_dtype('u', 1), {data, true, owner});
}

template <Medium medium>
nb::object serialize_list(const PacketsOf<medium>& object) {
    const auto held = object.read([](const auto& packets) { return std::pair(packets.name, packets.list.clone()); });
    return serialized(held.first, [&] { return archive(held.first, held.second); });
}

template <Medium medium>
PacketsOf<medium>* deserialize_list(nb::handle bytes, bool copy) {
    ArchivedPackets restored =
        run(kName, kName, [&, held = hold(bytes, copy)] { return restore_packets(held.owner, held.bytes, medium); });
    return new PacketsOf<medium>(HeldPackets<medium>{std::move(restored.name), std::move(restored.list)});
}

}  // namespace

nb::object serialize(const PacketsOf<Medium::kAudio>& object) {
    return serialize_list(object);
}

nb::object serialize(const PacketsOf<Medium::kVideo>& object) {
    return serialize_list(object);
}

nb::object serialize(const PacketsObject& object) {
    const Packets held = object.read([](const Packets& packets) { return packets; });
    return serialized(held.name, [&] {
        const auto* const packet = dynamic_cast<const FfmpegPacket*>(held.image.get());
        return packet == nullptr ? archive_file(held.name, held.image->image().bytes)
                                 : archive(held.name, packet->get());
    });
}

void deserialize(nb::handle bytes, bool copy, PacketsOf<Medium::kAudio>*& made) {
    made = deserialize_list<Medium::kAudio>(bytes, copy);
}

void deserialize(nb::handle bytes, bool copy, PacketsOf<Medium::kVideo>*& made) {
    made = deserialize_list<Medium::kVideo>(bytes, copy);
}

void deserialize(nb::handle bytes, bool copy, PacketsObject*& made) {
    const HeldArchive held = hold(bytes, copy);
    std::string name;
    std::shared_ptr<const Packet> image = run(kName, kName, [&]() -> std::shared_ptr<const Packet> {
        ArchivedImage restored = restore_image(held.owner, held.bytes);
        name = std::move(restored.name);
        if (restored.packet.packet == nullptr) {
            // As it was found before.
            return demux_image(held.owner, {restored.file, {}, nullptr}, {});
        }
        return std::make_shared<FfmpegPacket>(std::move(restored.packet));
    });
    made = new PacketsObject(wrap_packets(std::move(name), std::move(image), nullptr));
}

}  // namespace spdl
