#include "ffmpeg/libav.h"

#include <new>

namespace spdl {
namespace {

template <typename Owner>
Owner checked(Owner object) {
    if (!object) {
        throw std::bad_alloc();
    }
    return object;
}

}  // namespace

PacketPtr make_packet() {
    return checked(PacketPtr(av_packet_alloc()));
}

FramePtr make_frame() {
    return checked(FramePtr(av_frame_alloc()));
}

FramePtr reference(const AVFrame& frame) {
    return checked(FramePtr(av_frame_clone(&frame)));
}

PacketPtr reference(const AVPacket& packet) {
    return checked(PacketPtr(av_packet_clone(&packet)));
}

}  // namespace spdl
