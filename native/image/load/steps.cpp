#include "image/load/steps.h"

#include <utility>

#include "image/jpeg/jpeg_backend.h"
#include "image/load/open_image.h"
#include "image/load/resized_frame.h"

namespace spdl {

std::shared_ptr<const Packet> demux_image(std::shared_ptr<const void> owner, const EncodedImage& image,
                                          const DemuxOptions& options) {
    Decoder& decoder = thread_scratch().decoders.choose(image, options, {}).decoder;
    return decoder.demux(std::move(owner), image, options);
}

DecodedImage decode_resized(const Packet& packet, const LoadOptions& options, const DecodeOptions& decode,
                            FrameMaker make_frame) {
    ThreadScratch& scratch = thread_scratch();
    const OpenImage image(packet.image(), {}, decode, false, scratch);
    return {resized_frame(image.decoder(), image.shape(), options, make_frame, scratch), &image.backend()};
}

DecodedImage decode_whole(const Packet& packet, const DecodeOptions& decode, StoredFrameMaker make_frame,
                          FrameMaker make_rgb) {
    const EncodedImage encoded = packet.image();
    const auto [backend, decoder] = thread_scratch().decoders.choose(encoded, {}, decode);
    if (!decoder.packs(encoded)) {
        const bool ours = make_rgb != nullptr && &backend == &libjpeg_turbo_backend;
        return ours ? decode_resized(packet, {}, decode, make_rgb) : DecodedImage{};
    }
    const OpenImage image(encoded, {}, decode, false, thread_scratch());
    std::unique_ptr<Frame> frame = make_frame(image.shape().stored, image.shape().pixel_format);
    image.decoder().decode_whole(frame->pixels(), static_cast<std::size_t>(frame->picture().row_distances[0]));
    frame->set_properties(image.decoder().properties());
    return {std::move(frame), &image.backend()};
}

}  // namespace spdl
