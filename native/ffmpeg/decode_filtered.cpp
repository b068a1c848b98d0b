#include "ffmpeg/decode_filtered.h"

#include <utility>

#include "ffmpeg/decode_stored.h"
#include "ffmpeg/ffmpeg_backend.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/filter_chain.h"

namespace spdl {

std::unique_ptr<Frame> decode_filtered(const Packet& packet, const std::string& filters, const DecodeOptions& options) {
    if (options.backend != nullptr && options.backend != &ffmpeg_backend) {
        refuse(*options.backend);
    }
    const EncodedImage image = packet.image();
    FramePtr frame = decode_stored(image, {}, options);
    if (!filters.empty()) {
        frame = filter_frame(*frame, time_base(image), filters);
    }
    return std::make_unique<FfmpegFrame>(std::move(frame), time_base(image));
}

std::unique_ptr<Frame> filtered(std::unique_ptr<Frame> frame, const std::string& filters) {
    const FfmpegFrame& source = as_ffmpeg(*frame);
    return std::make_unique<FfmpegFrame>(filter_frame(source.get(), source.time_base(), filters), source.time_base());
}

}  // namespace spdl
