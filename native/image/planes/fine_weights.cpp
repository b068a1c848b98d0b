#include "image/planes/fine_weights.h"

#include "image/resize/rounded_weights.h"

namespace spdl::fine {
namespace {

constexpr int kLoad = 8;  // Samples.

// Returns the output in a place of a group. Beyond the last one, any one will do.
std::size_t output_at(const ResampleTable& table, int place) {
    return static_cast<std::size_t>(std::min(place, table.output - 1));
}

bool fits(const ResampleTable& table) {
    for (int lane = 0; lane < table.output; lane += kLane) {
        const auto [low, high] = table.firsts(lane, kLane);
        if (high - low > kLoad - 2) {
            return false;
        }
    }
    return true;
}

void pack_group(const ResampleTable& table, int begin, std::uint8_t* to) {
    auto* const group = reinterpret_cast<NearGroup*>(to);
    auto* const packed = reinterpret_cast<NearPair*>(group + 1);
    for (int place = 0; place < kGroup; ++place) {
        const std::size_t output = output_at(table, begin + place);
        const std::int32_t base = table.firsts(begin + place / kLane * kLane, kLane).first;
        group->base[place / kLane] = base;
        for (int byte = 0; byte < 4; ++byte) {
            group->shuffle[4 * place + byte] = static_cast<std::uint8_t>(2 * (table.first[output] - base) + byte);
        }
        RoundedWeights rounded(table, output, kBits);
        for (int pair = 0; pair < pairs(table); ++pair) {
            for (int tap = 0; tap < 2; ++tap) {
                packed[pair].weights[2 * place + tap] = static_cast<std::int16_t>(rounded.next());
            }
        }
    }
}

}  // namespace

void pack_row(ResampleTable& table) {
    const auto outputs = static_cast<std::size_t>(padded_outputs(table));
    const auto taps = static_cast<std::size_t>(padded_taps(table));
    table.lanes_fit = fits(table);
    const std::size_t near_bytes = table.lanes_fit ? outputs / kGroup * near_group_bytes(table) : 0;
    table.packed.reserve(row_bytes(table) + near_bytes);
    auto* first = reinterpret_cast<std::int32_t*>(table.packed.data());
    auto* weights = reinterpret_cast<std::int16_t*>(first + outputs);
    for (std::size_t i = 0; i < outputs; ++i) {
        const std::size_t output = std::min(i, static_cast<std::size_t>(table.output) - 1);
        *first++ = table.first[output];
        RoundedWeights rounded(table, output, kBits);
        weights = std::generate_n(weights, taps, [&] { return static_cast<std::int16_t>(rounded.next()); });
    }
    std::uint8_t* group = table.packed.data() + row_bytes(table);
    for (int begin = 0; table.lanes_fit && begin < table.output; begin += kGroup, group += near_group_bytes(table)) {
        pack_group(table, begin, group);
    }
}

void pack_column(ResampleTable& table) {
    const auto outputs = static_cast<std::size_t>(table.output);
    const auto count = static_cast<std::size_t>(pairs(table));
    table.packed.reserve(outputs * count * sizeof(std::int32_t));
    auto* packed = reinterpret_cast<std::int32_t*>(table.packed.data());
    for (std::size_t output = 0; output < outputs; ++output) {
        RoundedWeights rounded(table, output, kBits);
        packed = std::generate_n(packed, count, [&] { return rounded.pair(); });
    }
}

}  // namespace spdl::fine
