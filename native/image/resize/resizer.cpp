#include "image/resize/resizer.h"

#include <algorithm>
#include <cstring>

#include "image/write/pixel_writers.h"

namespace spdl {

void VerticalPass::begin(const Kernels& kernels, const ResampleTable& table) {
    kernels_ = &kernels;
    table_ = &table;
    window_.resize(static_cast<std::size_t>(table.max_taps));
    next_ = 0;
}

bool VerticalPass::ready(int available) const {
    if (next_ == table_->output) {
        return false;
    }
    const auto index = static_cast<std::size_t>(next_);
    return table_->first[index] + table_->taps[index] <= available;
}

void VerticalPass::write_next(const RowRing& rows, std::size_t bytes, std::uint8_t* to) {
    const auto index = static_cast<std::size_t>(next_);
    const int first = table_->first[index];
    for (int tap = 0; tap < table_->taps[index]; ++tap) {
        window_[static_cast<std::size_t>(tap)] = rows.pixels(first + tap);
    }
    kernels_->vertical(*table_, next_, window_.data(), to, bytes);
    ++next_;
}

namespace {

// Rows that the horizontal pass takes at a time.
constexpr int kPair = 2;

}  // namespace

void HorizontalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    waiting_ = 0;
    int rows = kCollected + kMaxRows;
    if (plan.vertical != nullptr) {
        vertical_.begin(*plan.kernels, *plan.vertical);
        rows += plan.vertical->max_taps;
    }
    const std::size_t slack = std::max({kReadSlack, kWriteSlack, kPixelSlack});
    if (plan.horizontal == nullptr) {
        narrowed_.begin(rows, rgb_bytes(source.pixels), slack, rgb_bytes(source.skipped));
    } else {
        narrowed_.begin(rows, rgb_bytes(plan.size.width), slack);
        source_.begin(kCollected + kMaxRows, rgb_bytes(source.pixels), read_slack(*plan.horizontal),
                      rgb_bytes(source.skipped));
    }
}

std::uint8_t* HorizontalFirstSink::row(int y) noexcept {
    return plan_.horizontal != nullptr ? source_.row(y) : narrowed_.row(y);
}

void HorizontalFirstSink::commit(int y, int count) noexcept {
    const int end = y + count;
    if (end - waiting_ < kCollected && end < plan_.from.height) {
        return;
    }
    const int begin = waiting_;
    waiting_ = end;
    if (plan_.horizontal != nullptr) {
        for (int first = begin; first < end; first += kPair) {
            const std::uint8_t* const sources[kPair] = {source_.pixels(first), source_.pixels(first + 1)};
            std::uint8_t* const outputs[kPair] = {narrowed_.row(first), narrowed_.row(first + 1)};
            plan_.pass->resample(*plan_.horizontal, sources, outputs, std::min(end - first, kPair));
        }
    }
    if (plan_.vertical == nullptr) {
        for (int i = begin; i < end; ++i) {
            writer_->put(i, narrowed_.pixels(i));
        }
        return;
    }
    while (vertical_.ready(end)) {
        const int next = vertical_.next();
        vertical_.write_next(narrowed_, rgb_bytes(plan_.size.width), writer_->row(next));
        writer_->commit(next);
    }
}

void VerticalFirstSink::begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer) {
    plan_ = plan;
    writer_ = &writer;
    vertical_.begin(*plan.kernels, *plan.vertical);
    source_.begin(plan.vertical->max_taps + kMaxRows, rgb_bytes(source.pixels), kReadSlack, rgb_bytes(source.skipped));
    shortened_.begin(1, rgb_bytes(plan.from.width), read_slack(*plan.horizontal));
    output_.begin(1, rgb_bytes(plan.size.width), std::max(kWriteSlack, kPixelSlack));
}

void VerticalFirstSink::commit(int y, int count) noexcept {
    while (vertical_.ready(y + count)) {
        const std::uint8_t* const source = shortened_.row(0);
        std::uint8_t* const output = output_.row(0);
        const int next = vertical_.next();
        vertical_.write_next(source_, rgb_bytes(plan_.from.width), shortened_.row(0));
        plan_.pass->resample(*plan_.horizontal, &source, &output, 1);
        writer_->put(next, output);
    }
}

void CopySink::begin(const DecodedRows& source, RowWriter& writer) {
    writer_ = &writer;
    in_place_ = writer.direct() && source.pixels == writer.target().row_pixels();
    if (!in_place_) {
        source_.begin(kMaxRows, rgb_bytes(source.pixels), kPixelSlack, rgb_bytes(source.skipped));
    }
}

void CopySink::commit(int y, int count) noexcept {
    for (int row = y; !in_place_ && row < y + count; ++row) {
        writer_->put(row, source_.pixels(row));
    }
}

void NearestTable::build(const Axis& axis) {
    samples.resize(static_cast<std::size_t>(axis.count));
    const double scale = (axis.end - axis.begin) / axis.output;
    // The positions are summed up, not multiplied: Pillow does so, rounding errors included.
    double position = axis.begin + scale * 0.5;
    for (int i = 0; i < axis.first + axis.count; ++i, position += scale) {
        if (i >= axis.first) {
            const int sample = std::min(static_cast<int>(position), axis.input - 1);
            const int at = axis.reversed ? axis.first + axis.count - 1 - i : i - axis.first;
            samples[static_cast<std::size_t>(at)] = axis.mirrored ? axis.input - 1 - sample : sample;
        }
    }
    const auto [least, most] = std::minmax(samples.front(), samples.back());
    source = least;
    source_count = most - least + 1;
    for (int& sample : samples) {
        sample -= source;
    }
}

void NearestSink::begin(const NearestTable& columns, const NearestTable& rows, const DecodedRows& source,
                        RowWriter& writer) {
    columns_ = &columns;
    rows_ = &rows;
    writer_ = &writer;
    source_.begin(kMaxRows, rgb_bytes(source.pixels), 0, rgb_bytes(source.skipped));
    next_ = 0;
}

void NearestSink::commit(int y, int count) noexcept {
    for (int source = y; source < y + count; ++source) {
        for (; next_ < rows_->samples.size() && rows_->samples[next_] == source; ++next_) {
            const std::uint8_t* const from = source_.pixels(source);
            std::uint8_t* output = writer_->row(static_cast<int>(next_));
            for (const int column : columns_->samples) {
                std::memcpy(output, from + 3 * static_cast<std::ptrdiff_t>(column), 3);
                output += 3;
            }
            writer_->commit(static_cast<int>(next_));
        }
    }
}

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

namespace {

bool allows_near(const Resampling& resampling) {
    // If neighbouring output samples are `scale` input samples apart, these filters are 2 * scale + 1 input samples
    // wide.
    constexpr double kMaxScale = (kMaxNearTaps - 1) / 2;
    const Axis& axis = resampling.horizontal;
    // Weights of samples that stand for several may be below zero.
    return !resampling.exact && axis.fewer.length == 0 &&
           (resampling.interpolation == Interpolation::kBilinear || resampling.interpolation == Interpolation::kArea) &&
           axis.end - axis.begin <= kMaxScale * axis.output;
}

}  // namespace

Box Resizer::prepare(const Resampling& resampling) {
    resampling_ = resampling;
    const Axis& horizontal = resampling_.horizontal;
    const Axis& vertical = resampling_.vertical;
    const Interpolation interpolation = resampling_.interpolation;
    SampleRange columns = copied_samples(horizontal);
    SampleRange rows = copied_samples(vertical);
    const Kernels& variant = kernels();
    const NearPasses* const near = allows_near(resampling_) ? variant.near : nullptr;
    const HorizontalPass& pass = near != nullptr ? near->horizontal : variant.horizontal;
    plan_ = {&variant, &pass, nullptr, nullptr, {}, {horizontal.count, vertical.count}, resampling_.vertical_first};
    if (!horizontal.copies() || !vertical.copies()) {
        if (interpolation == Interpolation::kNearest) {
            nearest_columns_.build(horizontal);
            nearest_rows_.build(vertical);
            columns = needed_samples(nearest_columns_);
            rows = needed_samples(nearest_rows_);
        } else {
            if (!horizontal.copies()) {
                plan_.horizontal = tables_.horizontal(horizontal, interpolation, pass.pack);
                columns = needed_samples(*plan_.horizontal);
            }
            if (!vertical.copies()) {
                plan_.vertical = tables_.vertical(vertical, interpolation,
                                                  near != nullptr ? near->pack_vertical : variant.pack_vertical);
                rows = needed_samples(*plan_.vertical);
            }
        }
    }
    plan_.from = {columns.end - columns.begin, rows.end - rows.begin};
    return {columns.begin, rows.begin, columns.end, rows.end};
}

void Resizer::pad(const Canvas& canvas) {
    writer_.begin(canvas, Target(), kernels().write_pixels);
}

RowSink& Resizer::begin(const DecodedRows& source, const Canvas& canvas, const Target& target) {
    writer_.begin(canvas, target, plan_.kernels->write_pixels);
    if (resampling_.horizontal.copies() && resampling_.vertical.copies()) {
        copy_.begin(source, writer_);
        return copy_;
    }
    if (resampling_.interpolation == Interpolation::kNearest) {
        nearest_.begin(nearest_columns_, nearest_rows_, source, writer_);
        return nearest_;
    }
    if (plan_.vertical_first && plan_.horizontal != nullptr && plan_.vertical != nullptr) {
        vertical_first_.begin(plan_, source, writer_);
        return vertical_first_;
    }
    horizontal_first_.begin(plan_, source, writer_);
    return horizontal_first_;
}

}  // namespace spdl
