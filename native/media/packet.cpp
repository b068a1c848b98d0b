#include "media/packet.h"

#include <utility>

namespace spdl {

KeptPacket::KeptPacket(std::shared_ptr<const void> owner, const EncodedImage& image, CodecInfo info)
    : owner_(std::move(owner)), bytes_(image.bytes), page_(image.page), info_(std::move(info)) {}

}  // namespace spdl
