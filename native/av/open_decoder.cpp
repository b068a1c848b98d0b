#include "av/open_decoder.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "core/little_endian.h"

namespace spdl {

int open_decoder(AVCodecContext& context, const AVCodec& decoder, AVDictionary** options) {
    constexpr int kHeader = 80;
    constexpr int kNarrowBand = 8000;
    constexpr std::uint32_t kUltraWideBand = 2;
    constexpr unsigned kFfmpeg7 = AV_VERSION_INT(61, 0, 0);
    if (avcodec_version() < kFfmpeg7 || std::string_view(decoder.name) != "speex" || context.extradata_size < kHeader ||
        std::memcmp(context.extradata, "Speex   ", 8) != 0) {
        return avcodec_open2(&context, &decoder, options);
    }
    const auto band = load_le<std::uint32_t>(context.extradata + 40);
    if (band > kUltraWideBand) {
        return AVERROR_INVALIDDATA;
    }
    av_freep(&context.extradata);
    context.extradata_size = 0;
    // The frames have the rate that the context has when they are decoded, which may be another one.
    const int rate = std::exchange(context.sample_rate, kNarrowBand << band);
    const int opened = avcodec_open2(&context, &decoder, options);
    context.sample_rate = rate;
    return opened;
}

}  // namespace spdl
