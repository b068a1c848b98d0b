#include "av/scaling_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "av/scaling_context.h"

namespace spdl {
namespace {

// Pictures of 8 bits become such of 16. A picture of kGround stays as it is; a single row or column of kPulse shows its
// weight wherever it has one. The steps are such that every result tells the weight exactly: the sums are of 14 bits
// and 12, and lose 3 bits and 15.
constexpr int kGround = 128;
constexpr int kPulse = 192;
constexpr int kGroundResult = kGround << 8;
constexpr int kHorizontalStep = 1;
constexpr int kVerticalStep = 4;
constexpr int kHorizontalSum = 1 << 14;
constexpr int kVerticalSum = 1 << 12;

// Every so manieth row or column is a pulse, so that no output sees two: filters reach 3 inputs to either side, or
// outputs if these are farther apart.
int distance(int inputs, int outputs) {
    constexpr int kReach = 6;
    constexpr int kMore = 8;
    return static_cast<int>(std::ceil(std::max(1.0, static_cast<double>(inputs) / outputs) * kReach)) + kMore;
}

// Pictures with pulses at all places: line k has them at k and every distance() on. A line lies along the axis.
class Probe {
  public:
    Probe(ScalingAxis axis, int inputs, int outputs)
        : horizontal_(axis == ScalingAxis::kHorizontal),
          inputs_(inputs),
          outputs_(outputs),
          lines_(distance(inputs, outputs)),
          in_(static_cast<std::size_t>(inputs) * static_cast<std::size_t>(lines_), kGround),
          out_(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(lines_)) {
        for (int line = 0; line < lines_; ++line) {
            for (int at = line; at < inputs; at += lines_) {
                in_[index(at, line, inputs)] = kPulse;
            }
        }
    }

    [[nodiscard]] int lines() const { return lines_; }

    bool scale(Interpolation interpolation) {
        const FramePtr like = make_frame();
        like->format = AV_PIX_FMT_GRAY8;
        like->color_range = AVCOL_RANGE_JPEG;
        like->width = horizontal_ ? inputs_ : lines_;
        like->height = horizontal_ ? lines_ : inputs_;
        const Size size = horizontal_ ? Size{outputs_, lines_} : Size{lines_, outputs_};
        const SwsContextPtr context = make_scaling_context(*like, size, AV_PIX_FMT_GRAY16, interpolation);
        if (!context) {
            return false;
        }
        const std::uint8_t* const from[4] = {in_.data()};
        std::uint8_t* const to[4] = {reinterpret_cast<std::uint8_t*>(out_.data())};
        const int from_stride[4] = {like->width};
        const int to_stride[4] = {size.width * 2};
        return sws_scale(context.get(), from, from_stride, 0, like->height, to, to_stride) == size.height;
    }

    // Returns the weight of the pulse of a line in an output; nothing if the result is not one of a weight.
    [[nodiscard]] std::optional<int> weight(int output, int line) const {
        const int found = out_[index(output, line, outputs_)] - kGroundResult;
        const int step = horizontal_ ? kHorizontalStep : kVerticalStep;
        if (found % step != 0) {
            return std::nullopt;
        }
        return found / step;
    }

  private:
    [[nodiscard]] std::size_t index(int at, int line, int along) const {
        const auto [row, column, width] = horizontal_ ? std::tuple(line, at, along) : std::tuple(at, line, lines_);
        return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
    }

    bool horizontal_;
    int inputs_;
    int outputs_;
    int lines_;
    std::vector<std::uint8_t> in_;
    std::vector<std::uint16_t> out_;
};

struct Tap {
    int input;
    int weight;
};

// Returns the taps of an output in the order of their inputs; none if they make no sense.
std::vector<Tap> taps_of(const Probe& probe, int output, int inputs, int outputs, int sum) {
    const int lines = probe.lines();
    const double center = (output + 0.5) * inputs / outputs - 0.5;
    const int first = static_cast<int>(std::floor(center)) - lines / 2 + 1;
    std::vector<Tap> taps;
    int total = 0;
    for (int input = first; input < first + lines; ++input) {
        const auto weight = probe.weight(output, ((input % lines) + lines) % lines);
        if (!weight || (*weight != 0 && (input < 0 || input >= inputs))) {
            return {};
        }
        if (*weight != 0) {
            taps.push_back({input, *weight});
            total += *weight;
        }
    }
    return total == sum ? taps : std::vector<Tap>();
}

}  // namespace

std::optional<ScalingWeights> read_scaling_weights(ScalingAxis axis, int inputs, int outputs,
                                                   Interpolation interpolation, int multiple) {
    Probe probe(axis, inputs, outputs);
    if (inputs < probe.lines() || !probe.scale(interpolation)) {
        return std::nullopt;
    }
    const int sum = axis == ScalingAxis::kHorizontal ? kHorizontalSum : kVerticalSum;
    std::vector<std::vector<Tap>> taps;
    int most = 1;
    for (int output = 0; output < outputs; ++output) {
        taps.push_back(taps_of(probe, output, inputs, outputs, sum));
        if (taps.back().empty()) {
            return std::nullopt;
        }
        most = std::max(most, taps.back().back().input - taps.back().front().input + 1);
    }
    ScalingWeights found;
    found.used = most;
    found.taps = (most + multiple - 1) / multiple * multiple;
    if (found.taps > inputs) {
        return std::nullopt;
    }
    found.weights.resize(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(found.taps));
    for (int output = 0; output < outputs; ++output) {
        const std::vector<Tap>& own = taps[static_cast<std::size_t>(output)];
        const int first = std::min(own.front().input, inputs - found.taps);
        if (output > 0 && first < found.first.back()) {
            return std::nullopt;
        }
        found.first.push_back(first);
        for (const Tap& tap : own) {
            found.weights[static_cast<std::size_t>(output) * static_cast<std::size_t>(found.taps) +
                          static_cast<std::size_t>(tap.input - first)] = static_cast<std::int16_t>(tap.weight);
        }
    }
    return found;
}

}  // namespace spdl
