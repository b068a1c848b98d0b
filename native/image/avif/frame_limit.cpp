#include <dav1d/dav1d.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/bytes.h"
#include "image/avif/avif_decoder.h"

namespace spdl {
namespace {

thread_local bool refused = false;

// Returns what the units of an AV1 stream ("OBUs") hold, as far as they can be told apart, which is as far as dav1d
// reads.
int count_frames(Bytes units) {
    constexpr unsigned kFrameHeader = 3;
    constexpr unsigned kFrame = 6;
    constexpr unsigned kRepeatedHeader = 7;  // Of no frame, unless one begins here.
    constexpr unsigned kHasExtension = 4;
    constexpr unsigned kHasSize = 2;
    int frames = 0;
    while (!units.empty()) {
        const unsigned header = units[0];
        const unsigned type = header >> 3U & 15U;
        frames += type == kFrameHeader || type == kFrame || type == kRepeatedHeader ? 1 : 0;
        if ((header & kHasSize) == 0) {
            break;
        }
        std::size_t at = (header & kHasExtension) == 0 ? 1 : 2;
        std::uint64_t size = 0;
        constexpr unsigned kBits = 7;
        for (unsigned shift = 0; at < units.size(); shift += kBits) {
            const std::uint64_t byte = units[at++];
            size |= (byte & 0x7fU) << shift;
            if (byte < 0x80U || shift == 7 * kBits) {
                break;
            }
        }
        if (at >= units.size() || size > units.size() - at) {
            break;
        }
        units = units.subspan(at + size);
    }
    return frames;
}

}  // namespace

bool were_frames_refused() noexcept {
    return std::exchange(refused, false);
}

}  // namespace spdl

extern "C" {

// The pinned libavif calls it in the place of dav1d_send_data (scripts/bundle/library.sh).
int spdl_dav1d_send_data(Dav1dContext* context, Dav1dData* data);

int spdl_dav1d_send_data(Dav1dContext* context, Dav1dData* data) {
    if (spdl::count_frames({data->data, data->sz}) > spdl::kMostFrames) {
        spdl::refused = true;
        return DAV1D_ERR(EINVAL);
    }
    return dav1d_send_data(context, data);
}
}
