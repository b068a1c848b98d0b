#include "bindings/compress.h"

#include <cstring>

#include "archive/compress.h"
#include "archive/inflate.h"
#include "bindings/gil.h"
#include "bindings/held_bytes.h"
#include "core/aligned_buffer.h"

namespace nb = nanobind;

namespace spdl {
namespace {

using Bound = std::size_t (*)(std::size_t);
using Compress = std::size_t (*)(Bytes, std::span<std::uint8_t>);

// A member's two parts as one stream.
nb::bytes compressed(nb::handle header, nb::handle payload, Bound bound, Compress compress) {
    const HeldBytes parts[] = {hold_bytes(header), hold_bytes(payload)};
    const std::size_t size = parts[0].size + parts[1].size;
    AlignedBuffer result;
    std::size_t used = 0;
    {
        const ReleasedGil released;
        const AlignedBuffer whole(size);
        std::memcpy(whole.data(), parts[0].data, parts[0].size);
        if (parts[1].size > 0) {
            std::memcpy(whole.data() + parts[0].size, parts[1].data, parts[1].size);
        }
        result = AlignedBuffer(bound(size));
        used = compress({whole.data(), size}, {result.data(), result.size()});
    }
    return nb::bytes(result.data(), used);
}

std::uint32_t checksum(nb::handle header, nb::handle payload) {
    const HeldBytes parts[] = {hold_bytes(header), hold_bytes(payload)};
    const ReleasedGil released;
    return crc32(parts[1].get(), crc32(parts[0].get()));
}

}  // namespace

void bind_compress(nb::module_& module) {
    module.def(
        "deflate",
        [](nb::handle header, nb::handle payload) { return compressed(header, payload, &deflate_bound, &deflate); },
        nb::arg("header"), nb::arg("payload"));
    module.def(
        "zstd", [](nb::handle header, nb::handle payload) { return compressed(header, payload, &zstd_bound, &zstd); },
        nb::arg("header"), nb::arg("payload"));
    module.def("crc32", &checksum, nb::arg("header"), nb::arg("payload"));
}

}  // namespace spdl
