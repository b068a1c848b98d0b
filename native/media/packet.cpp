#include "media/packet.h"

#include <utility>

namespace spdl {

KeptPacket::KeptPacket(std::shared_ptr<const void> owner, Bytes bytes, CodecInfo info)
    : owner_(std::move(owner)), bytes_(bytes), info_(std::move(info)) {}

}  // namespace spdl
