#include "image/resize/plane_resizer.h"

#include <algorithm>

#include "image/resize/kernels.h"
#include "image/write/color_writers.h"

namespace spdl {

Box PlaneResizer::Tables::prepare(const Resampling& resampling, const Kernels& kernels) {
    horizontal = cache.horizontal(resampling.horizontal, resampling.interpolation, kernels.plane.pack);
    vertical = cache.vertical(resampling.vertical, resampling.interpolation, kernels.pack_vertical);
    return {horizontal->source, vertical->source, horizontal->source + horizontal->source_count,
            vertical->source + vertical->source_count};
}

void PlaneResizer::Stages::begin(const Tables& tables, const PlaneRows& decoded, const Kernels& kernels) {
    const auto width = static_cast<std::size_t>(tables.horizontal->output);
    source.begin(decoded.together, static_cast<std::size_t>(decoded.samples), read_slack(*tables.horizontal),
                 static_cast<std::size_t>(decoded.skipped));
    narrowed.begin(tables.vertical->max_taps + decoded.together, width, std::max(kReadSlack, kWriteSlack));
    vertical.begin(kernels, *tables.vertical);
    output.reserve(width + kPixelSlack);
    rows = tables.vertical->source_count;
    ready = 0;
}

void PlaneResizer::Stages::narrow(const Tables& tables, int end, const Kernels& kernels) {
    constexpr int kPair = 2;
    for (end = std::min(end, rows); ready < end; ready = std::min(ready + kPair, end)) {
        const std::uint8_t* const sources[kPair] = {source.pixels(ready), source.pixels(ready + 1)};
        std::uint8_t* const outputs[kPair] = {narrowed.row(ready), narrowed.row(ready + 1)};
        kernels.plane.resample(*tables.horizontal, sources, outputs, std::min(end - ready, kPair));
    }
}

const std::uint8_t* PlaneResizer::Stages::next_row(const Tables& tables) {
    vertical.write_next(narrowed, static_cast<std::size_t>(tables.horizontal->output), output.data());
    return output.data();
}

PlaneBoxes PlaneResizer::prepare(const Resampling& luma, const Resampling& chroma) {
    kernels_ = &kernels();
    return {luma_.prepare(luma, *kernels_), chroma_.prepare(chroma, *kernels_)};
}

PlaneSink& PlaneResizer::begin(const DecodedPlanes& source, const Canvas& canvas, const Target& target) {
    writer_.begin(canvas, target, kernels_->write_pixels);
    blue_first_ = canvas.format->channels() == Channels::kBgr;
    planes_[kLuma].begin(luma_, source.luma, *kernels_);
    planes_[kBlueChroma].begin(chroma_, source.chroma, *kernels_);
    planes_[kRedChroma].begin(chroma_, source.chroma, *kernels_);
    return *this;
}

void PlaneResizer::commit(int luma, int chroma) noexcept {
    Stages& y = planes_[kLuma];
    Stages& cb = planes_[kBlueChroma];
    Stages& cr = planes_[kRedChroma];
    y.narrow(luma_, luma, *kernels_);
    cb.narrow(chroma_, chroma, *kernels_);
    cr.narrow(chroma_, chroma, *kernels_);
    while (y.vertical.ready(y.ready) && cb.vertical.ready(cb.ready)) {
        const int next = y.vertical.next();
        const ColorPlanes planes{y.next_row(luma_), cb.next_row(chroma_), cr.next_row(chroma_)};
        kernels_->write_colors(planes, static_cast<std::size_t>(luma_.horizontal->output), blue_first_,
                               writer_.row(next));
        writer_.commit(next);
    }
}

}  // namespace spdl
