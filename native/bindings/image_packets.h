#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "bindings/consumable.h"
#include "bindings/python_bytes.h"
#include "media/packet.h"

namespace spdl {

// One encoded image, as Python holds it.
struct Packets {
    static constexpr const char* kConsumed =
        "these ImagePackets were consumed by decode_packets: call clone() before decoding to use them again";

    std::string name;
    std::shared_ptr<const Packet> image;
    std::shared_ptr<PythonBytes> source;  // Kept here, too, so that the image can be freed without the GIL.

    [[nodiscard]] std::size_t bytes() const { return image->bytes(); }
    void free() { image.reset(); }
};

using PacketsObject = Consumable<Packets>;

inline PacketsObject wrap_packets(std::string name, std::shared_ptr<const Packet> image,
                                  std::shared_ptr<PythonBytes> source) {
    return PacketsObject(Packets{std::move(name), std::move(image), std::move(source)});
}

}  // namespace spdl
