#include "image/resize/resample_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spdl {
namespace {

double sinc(double x) {
    if (x == 0.0) {
        return 1.0;
    }
    x *= std::numbers::pi;
    return std::sin(x) / x;
}

// Each filter with its support, the distance from its centre at which it ends.
struct Area {
    static constexpr double kSupport = 0.5;
    static double at(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }
};

struct Bilinear {
    static constexpr double kSupport = 1.0;
    static double at(double x) {
        x = std::fabs(x);
        return x < 1.0 ? 1.0 - x : 0.0;
    }
};

// Keys' cubic convolution with a = -0.5 (R. Keys, 1981).
struct Bicubic {
    static constexpr double kSupport = 2.0;
    static double at(double x) {
        constexpr double a = -0.5;
        x = std::fabs(x);
        if (x < 1.0) {
            return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
        }
        return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
    }
};

struct Lanczos {
    static constexpr double kSupport = 3.0;
    static double at(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }
};

template <typename Filter>
void fill(ResampleTable& table) {
    const Axis& axis = table.axis;
    const double scale = (axis.end - axis.begin) / axis.output;
    const double filter_scale = std::max(scale, 1.0);
    const double support = Filter::kSupport * filter_scale;
    const double inverse = 1.0 / filter_scale;
    const auto outputs = static_cast<std::size_t>(axis.count);

    table.stride = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    table.output = axis.count;
    table.max_taps = 0;
    table.first.resize(outputs);
    table.taps.resize(outputs);
    table.weights.assign(outputs * table.stride, 0);

    thread_local std::vector<double> exact;
    exact.resize(table.stride);
    int source = axis.input;
    int source_end = 0;
    for (int i = 0; i < axis.count; ++i) {
        const int output = axis.first + (axis.reversed ? axis.count - 1 - i : i);
        const double center = axis.begin + (output + 0.5) * scale;
        const int first = std::max(static_cast<int>(center - support + 0.5), 0);
        const int last = std::min(static_cast<int>(center + support + 0.5), axis.input);
        const int taps = last - first;
        double total = 0.0;
        for (int t = 0; t < taps; ++t) {
            const double weight = Filter::at((t + first - center + 0.5) * inverse);
            exact[static_cast<std::size_t>(t)] = weight;
            total += weight;
        }
        const double normalised = total == 0.0 ? 1.0 : total;
        const auto at = static_cast<std::size_t>(i);
        std::int32_t* const weights = table.weights.data() + at * table.stride;
        for (int t = 0; t < taps; ++t) {
            const double scaled = exact[static_cast<std::size_t>(t)] / normalised * (1 << ResampleTable::kFractionBits);
            weights[axis.mirrored ? taps - 1 - t : t] =
                static_cast<std::int32_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
        }
        table.first[at] = axis.mirrored ? axis.input - last : first;
        table.taps[at] = taps;
        table.max_taps = std::max(table.max_taps, taps);
        source = std::min(source, table.first[at]);
        source_end = std::max(source_end, table.first[at] + taps);
    }
    for (std::int32_t& first : table.first) {
        first -= source;
    }
    table.source = source;
    table.source_count = source_end - source;
}

// Weights are multiplied by 8 when they are shared out.
constexpr int kSpreadBits = 3;

// Leaves out samples at the ends that have no weight.
void trim(std::int32_t* weights, std::int32_t& first, std::int32_t& taps) {
    while (taps > 1 && weights[taps - 1] == 0) {
        --taps;
    }
    std::int32_t skipped = 0;
    while (skipped < taps - 1 && weights[skipped] == 0) {
        ++skipped;
    }
    std::copy(weights + skipped, weights + taps, weights);
    std::fill(weights + taps - skipped, weights + taps, 0);
    first += skipped;
    taps -= skipped;
}

}  // namespace

double filter_support(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kArea:
            return Area::kSupport;
        case Interpolation::kBicubic:
            return Bicubic::kSupport;
        case Interpolation::kLanczos:
            return Lanczos::kSupport;
        case Interpolation::kBilinear:
        case Interpolation::kNearest:
            break;
    }
    return Bilinear::kSupport;
}

void ResampleTable::build(const Axis& wanted, Interpolation with) {
    axis = wanted;
    interpolation = with;
    half = 1 << (kFractionBits - 1);
    switch (with) {
        case Interpolation::kArea:
            fill<Area>(*this);
            break;
        case Interpolation::kBicubic:
            fill<Bicubic>(*this);
            break;
        case Interpolation::kLanczos:
            fill<Lanczos>(*this);
            break;
        case Interpolation::kBilinear:
        case Interpolation::kNearest:  // It has no weights, and its sink never asks.
            fill<Bilinear>(*this);
            break;
    }
    if (axis.fewer.length != 0) {
        take_fewer();
    }
}

std::pair<std::int32_t, std::int32_t> ResampleTable::firsts(int begin, int count) const {
    const auto [least, greatest] = std::minmax_element(first.begin() + std::min(begin, output - 1),
                                                       first.begin() + std::min(begin + count, output));
    return {*least, *greatest};
}

// Replaces the weights by weights of half as many samples. `begin` is the place of the first needed one among the old
// ones, and `length` is the number of all that remain. `spread` makes a weight, multiplied by 1 << kSpreadBits, the
// weights of the samples that it is given to.
template <typename Spread>
void ResampleTable::halve(int begin, int length, const Spread& spread) {
    const auto outputs = static_cast<std::size_t>(output);
    const std::vector<std::int32_t> before = std::move(weights);
    const std::size_t stride_before = stride;
    // A sample, the other half of whose pair is missing, at either end, and one more neighbour on either side.
    stride = static_cast<std::size_t>(max_taps) / 2 + 4;
    weights.assign(outputs * stride, 0);
    max_taps = 0;
    source = length;
    int source_end = 0;
    std::vector<std::int64_t> shares(stride);
    for (std::size_t i = 0; i < outputs; ++i) {
        const int from = begin + first[i];
        const int to = from + taps[i] - 1;
        first[i] = std::max(from / 2 - 1, 0);
        taps[i] = std::min(to / 2 + 2, length) - first[i];
        std::ranges::fill(shares, 0);
        const auto give = [&](int sample, std::int64_t share) {
            shares[static_cast<std::size_t>(std::clamp(sample, 0, length - 1) - first[i])] += share;
        };
        for (int sample = from; sample <= to; ++sample) {
            spread(sample, before[i * stride_before + static_cast<std::size_t>(sample - from)], give);
        }
        // The sum so far is rounded, so all weights together stay what they were.
        std::int64_t sum = 0;
        std::int64_t given = 0;
        for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps[i]); ++tap) {
            sum += shares[tap];
            const std::int64_t rounded = (sum + (1 << (kSpreadBits - 1))) >> kSpreadBits;
            weights[i * stride + tap] = static_cast<std::int32_t>(rounded - given);
            given = rounded;
        }
        trim(weights.data() + i * stride, first[i], taps[i]);
        max_taps = std::max(max_taps, taps[i]);
        source = std::min(source, first[i]);
        source_end = std::max(source_end, first[i] + taps[i]);
    }
    for (std::int32_t& each : first) {
        each -= source;
    }
    source_count = source_end - source;
}

void ResampleTable::take_fewer() {
    int begin = axis.fewer.place + source;
    int length = (axis.fewer.length + 1) / 2;
    int halvings = axis.fewer.halvings;
    if (axis.fewer.upsampled) {
        // A sample was made of three parts of the one in whose half it lies, and one part of the nearest other one.
        halve(begin, length, [](int sample, std::int64_t weight, const auto& give) {
            give(sample / 2, 6 * weight);
            give(sample / 2 + (sample % 2 == 0 ? -1 : 1), 2 * weight);
        });
        begin = source;
        length = (length + 1) / 2;
    }
    for (; halvings > 0 && axis.fewer.first; --halvings) {
        // The second of two lies halfway to the next one.
        halve(begin, length, [](int sample, std::int64_t weight, const auto& give) {
            give(sample / 2, 4 * weight);
            give((sample + 1) / 2, 4 * weight);
        });
        begin = source;
        length = (length + 1) / 2;
    }
    for (; halvings > 0; --halvings) {
        // Only the mean of a pair is known; the difference within it is taken from its neighbours, which are four times
        // as far from each other.
        halve(begin, length, [](int sample, std::int64_t weight, const auto& give) {
            const int to_first = sample % 2 == 0 ? 1 : -1;
            give(sample / 2, 8 * weight);
            give(sample / 2 - 1, to_first * weight);
            give(sample / 2 + 1, -to_first * weight);
        });
        begin = source;
        length = (length + 1) / 2;
    }
}

const ResampleTable* TableCache::Tables::get(const Axis& axis, Interpolation interpolation,
                                             void (*pack)(ResampleTable&)) {
    for (const ResampleTable& table : tables) {
        if (table.serves(axis, interpolation)) {
            return &table;
        }
    }
    ResampleTable& table = tables[oldest];
    oldest = (oldest + 1) % tables.size();
    table.ready = false;
    table.build(axis, interpolation);
    pack(table);
    table.ready = true;
    return &table;
}

const ResampleTable* TableCache::horizontal(const Axis& axis, Interpolation interpolation,
                                            void (*pack)(ResampleTable&)) {
    if (pack_horizontal_ != pack) {
        pack_horizontal_ = pack;
        horizontal_ = Tables();
    }
    return horizontal_.get(axis, interpolation, pack);
}

const ResampleTable* TableCache::vertical(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&)) {
    if (pack_vertical_ != pack) {
        pack_vertical_ = pack;
        vertical_ = Tables();
    }
    return vertical_.get(axis, interpolation, pack);
}

}  // namespace spdl
