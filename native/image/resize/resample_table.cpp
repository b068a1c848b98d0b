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

}  // namespace

void ResampleTable::build(const Axis& wanted, Interpolation with) {
    axis = wanted;
    interpolation = with;
    half = 1 << (kFractionBits - 1);
    switch (with) {
        case Interpolation::kArea:
            return fill<Area>(*this);
        case Interpolation::kBicubic:
            return fill<Bicubic>(*this);
        case Interpolation::kLanczos:
            return fill<Lanczos>(*this);
        case Interpolation::kBilinear:
        case Interpolation::kNearest:  // It has no weights, and its sink never asks.
            return fill<Bilinear>(*this);
    }
}

}  // namespace spdl
