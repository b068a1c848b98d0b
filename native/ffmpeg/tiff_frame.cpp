#include "ffmpeg/tiff_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "core/limits.h"
#include "ffmpeg/tiff_description.h"

namespace spdl {

PacketPtr tiff_packet(const AVPacket& file, const TiffPicture& picture) {
    if (picture.directory.empty()) {
        return reference(file);
    }
    const std::size_t size = picture.directory_at + picture.directory.size();
    if (size > kMaxEncodedBytes) {
        fail_tiff("its " + std::to_string(file.size) + " bytes are more than FFmpeg can take");
    }
    PacketPtr packet = make_packet();
    if (av_new_packet(packet.get(), static_cast<int>(size)) < 0 || av_packet_copy_props(packet.get(), &file) < 0) {
        throw std::bad_alloc();
    }
    std::uint8_t* const to = packet->data;
    std::memcpy(to, file.data, static_cast<std::size_t>(file.size));
    std::fill(to + file.size, to + picture.directory_at, std::uint8_t{0});
    std::memcpy(to + picture.directory_at, picture.directory.data(), picture.directory.size());
    constexpr unsigned kOffset = 4;  // Where a file says where its first directory is, in as many bytes.
    for (unsigned i = 0; i < kOffset; ++i) {
        const unsigned shift = 8 * (picture.little_endian ? i : kOffset - 1 - i);
        to[kOffset + i] = static_cast<std::uint8_t>(picture.directory_at >> shift);
    }
    return packet;
}

void divide_by_alpha(AVFrame& frame) {
    if (frame.format != AV_PIX_FMT_RGBA) {
        fail_tiff("its colours are multiplied by alpha, and its pixels are not RGBA");
    }
    if (av_frame_make_writable(&frame) < 0) {
        throw std::bad_alloc();
    }
    for (int y = 0; y < frame.height; ++y) {
        std::uint8_t* pixel = frame.data[0] + static_cast<std::ptrdiff_t>(y) * frame.linesize[0];
        for (int x = 0; x < frame.width; ++x, pixel += 4) {
            const unsigned alpha = pixel[3];
            for (int channel = 0; channel < 3; ++channel) {
                pixel[channel] =
                    alpha == 0 ? 0 : static_cast<std::uint8_t>(std::min(255U, pixel[channel] * 255U / alpha));
            }
        }
    }
}

}  // namespace spdl
