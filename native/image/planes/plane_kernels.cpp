#include "image/planes/plane_kernels.h"

#include <limits>

#include "image/resize/kernels.h"

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

namespace spdl {
namespace {

// As instructions on 16-bit integers do it.
FineLevel saturate(std::int32_t value) {
    using Limits = std::numeric_limits<FineLevel>;
    return static_cast<FineLevel>(std::clamp<std::int32_t>(value, Limits::min(), Limits::max()));
}

template <int kShift>
FineLevel round(std::int32_t sum) {
    return saturate((sum + (1 << (kShift - 1))) >> kShift);
}

void shorten(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
             std::size_t size) noexcept {
    constexpr std::int32_t kHalfBits = 16;
    for (std::size_t x = 0; x < size; ++x) {
        std::int32_t sum = 0;
        for (int pair = 0; pair < count; ++pair) {
            sum += static_cast<std::int16_t>(weights[pair] & 0xffff) * rows[2 * pair][x];
            sum += (weights[pair] >> kHalfBits) * rows[2 * pair + 1][x];
        }
        output[x] = round<fine::kBits - kFineBits>(sum);
    }
}

void narrow(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept {
    const fine::Row packed = fine::row(table);
    const std::int16_t* weights = packed.weights;
    for (int i = 0; i < table.output; ++i, weights += packed.taps) {
        const FineLevel* const source = row + packed.first[i];
        std::int32_t sum = 0;
        for (int tap = 0; tap < table.taps[static_cast<std::size_t>(i)]; ++tap) {
            sum += weights[tap] * source[tap];
        }
        output[i] = round<fine::kBits>(sum);
    }
}

// Multiplies as all instruction sets do: half of the product's upper 16 bits, rounded.
std::int32_t product(FineLevel level, std::int16_t factor) {
    return round<15>(level * factor);
}

void write(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first, std::uint8_t* to) noexcept {
    const auto more_than = [](FineLevel chroma, std::int16_t factor) {
        return saturate(product(chroma, YuvColors::kOne) + product(chroma, factor));
    };
    const auto clip = [](std::int32_t value) {
        constexpr std::int32_t kLast = 255;
        return static_cast<std::uint8_t>(std::clamp(value >> (kFineBits - 1), 0, kLast));
    };
    constexpr std::int32_t kHalf = 1 << (kFineBits - 2);
    const std::size_t red = blue_first ? 2 : 0;
    for (std::size_t i = 0; i < count; ++i, to += 3) {
        const std::int32_t y = product(saturate(row.y[i] - colors.black), colors.luma) + kHalf;
        const FineLevel cb = saturate(row.cb[i] - kMiddle);
        const FineLevel cr = saturate(row.cr[i] - kMiddle);
        to[red] = clip(saturate(y + more_than(cr, colors.red_from_cr_less_1)));
        to[1] = clip(saturate(saturate(y - product(cb, colors.green_from_cb)) - product(cr, colors.green_from_cr)));
        to[2 - red] = clip(saturate(y + more_than(cb, colors.blue_from_cb_less_1)));
    }
}

}  // namespace

const PlaneKernels kScalarPlanes{shorten, narrow, write};

}  // namespace spdl
