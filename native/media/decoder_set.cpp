#include "media/decoder_set.h"

#include "core/media_error.h"
#include "media/image_format.h"

namespace spdl {

DecoderSet::DecoderSet() {
    decoders_.reserve(backends().size());
    for (const Backend* const backend : backends()) {
        decoders_.push_back(backend->make_decoder());
    }
}

DecoderSet::Choice DecoderSet::choose(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                                      MemoryKind memory) {
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
        const Backend* const backend = backends()[i];
        Decoder& decoder = *decoders_[i];
        if ((decode.backend == nullptr || decode.backend == backend) && decoder.output() == memory &&
            decoder.accepts(image, demux, decode)) {
            return {*backend, decoder};
        }
    }
    if (image.page) {
        throw MediaError("only libtiff reads the pages of a TIFF, without FFmpeg's options: leave out the others");
    }
    if (decode.backend != nullptr) {
        refuse(*decode.backend);
    }
    throw MediaError("cannot read the image: " + describe_unknown_format(image.bytes));
}

}  // namespace spdl
