// Compares every variant of the resize's kernels that the processor has with the portable one, byte by byte, over
// random sizes, stretches, filters, directions and array formats. Prints a digest of the portable one's results: it is
// to be the same on every processor. Built and run by neon_check.sh.
//
// Usage: PROGRAM [ROUNDS]

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "image/planes/plane_kernels.h"
#include "image/resize/kernels.h"

namespace {

using namespace spdl;
using Bytes = std::vector<std::uint8_t>;
using Levels = std::vector<FineLevel>;

constexpr std::uint8_t kCanary = 0xa5;
constexpr int kRows = 2;

class Check {
  public:
    explicit Check(const Kernels& other) : other_(other) {}

    void round(std::uint64_t seed) {
        random_.seed(seed);
        const auto filter = static_cast<Interpolation>(1 + below(4));
        const Axis wanted = axis();
        // Four times the same, each packed in another form.
        ResampleTable tables[4];
        for (ResampleTable& table : tables) {
            table.build(wanted, filter);
        }
        other_.horizontal.pack(tables[1]);
        other_.pack_vertical(tables[2]);
        other_.plane.pack(tables[3]);
        horizontal(3, kScalarKernels.horizontal, tables[0], other_.horizontal, tables[1]);
        horizontal(1, kScalarKernels.plane, tables[0], other_.plane, tables[3]);
        vertical(tables[0], tables[2]);
        pixels();
        colors();
        planes(wanted, filter);
        yuv();
    }

    [[nodiscard]] std::uint64_t digest() const { return digest_; }

  private:
    std::size_t below(std::size_t limit) { return random_() % limit; }

    Bytes noise(std::size_t size) {
        Bytes bytes(size);
        for (std::uint8_t& byte : bytes) {
            // Extremes show what overflows.
            byte = static_cast<std::uint8_t>(below(3) == 0 ? below(2) * 255 : below(256));
        }
        return bytes;
    }

    Axis axis() {
        Axis axis;
        axis.input = 1 + static_cast<int>(below(below(4) == 0 ? 3000 : 200));
        axis.output = 1 + static_cast<int>(below(below(4) == 0 ? 1000 : 150));
        axis.end = axis.input;
        if (below(2) == 0) {
            // As where a JPEG is decoded at a fraction of its size.
            axis.begin = static_cast<double>(below(8)) / 8 * std::min(axis.input - 0.5, 1.0);
            axis.end = axis.input - static_cast<double>(below(8)) / 16 * (axis.input - axis.begin);
        }
        axis.first = static_cast<int>(below(static_cast<std::size_t>(axis.output)));
        axis.count = 1 + static_cast<int>(below(static_cast<std::size_t>(axis.output - axis.first)));
        axis.mirrored = below(2) == 0;
        axis.reversed = below(2) == 0;
        return axis;
    }

    void equal(const Bytes& one, const Bytes& other, std::size_t size, const char* what) {
        for (std::size_t i = 0; i < size; ++i) {
            if (one[i] != other[i]) {
                std::printf("%s, %s: byte %zu of %zu is %d, in portable code %d\n", other_.name, what, i, size,
                            other[i], one[i]);
                std::exit(1);
            }
            digest_ = (digest_ ^ one[i]) * 0x100000001b3U;
        }
    }

    void untouched(const Bytes& bytes, std::size_t from, const char* what) {
        for (std::size_t i = from; i < bytes.size(); ++i) {
            if (bytes[i] != kCanary) {
                std::printf("%s, %s: writes %zu bytes too far\n", other_.name, what, i - from + 1);
                std::exit(1);
            }
        }
    }

    void horizontal(std::size_t channels, const HorizontalPass& ours, const ResampleTable& table,
                    const HorizontalPass& theirs, const ResampleTable& their_table) {
        const std::size_t size = channels * static_cast<std::size_t>(table.output);
        const std::size_t needed = channels * static_cast<std::size_t>(table.source_count) + read_slack(table);
        const Bytes sources[kRows] = {noise(needed), noise(needed)};
        const std::uint8_t* const from[kRows] = {sources[0].data(), sources[1].data()};
        for (int count = 1; count <= kRows; ++count) {
            Bytes results[2][kRows];
            for (auto& result : results) {
                result[0] = result[1] = Bytes(size + kWriteSlack + 1, kCanary);
            }
            std::uint8_t* const first[kRows] = {results[0][0].data(), results[0][1].data()};
            std::uint8_t* const second[kRows] = {results[1][0].data(), results[1][1].data()};
            ours.resample(table, from, first, count);
            theirs.resample(their_table, from, second, count);
            for (int row = 0; row < kRows; ++row) {
                equal(results[0][row], results[1][row], size, "horizontal");
                untouched(results[1][row], size + kWriteSlack, "horizontal");
            }
        }
    }

    void vertical(const ResampleTable& table, const ResampleTable& theirs) {
        const std::size_t size = 3 * (1 + below(100));
        std::vector<Bytes> rows;
        std::vector<const std::uint8_t*> window;
        for (int row = 0; row < table.max_taps; ++row) {
            rows.push_back(noise(size + kReadSlack));
            window.push_back(rows.back().data());
        }
        for (int index = 0; index < table.output; index += 1 + static_cast<int>(below(9))) {
            Bytes ours(size + 1, kCanary);
            Bytes others(size + 1, kCanary);
            kScalarKernels.vertical(table, index, window.data(), ours.data(), size);
            other_.vertical(theirs, index, window.data(), others.data(), size);
            equal(ours, others, size, "vertical");
            untouched(others, size, "vertical");
        }
    }

    void pixels() {
        const std::size_t count = 1 + below(100);
        const Bytes source = noise(3 * count + kPixelSlack);
        const auto factor = [&] { return std::ldexp(1.0F + static_cast<float>(below(1U << 20U)) * 0x1p-20F, 3); };
        for (const Channels channels : {Channels::kRgb, Channels::kBgr, Channels::kGray}) {
            for (const Layout layout : {Layout::kNhwc, Layout::kNchw}) {
                for (const ElementType type : {ElementType::kUint8, ElementType::kFloat32, ElementType::kFloat16}) {
                    // From floats of 16 bits that are subnormal to those that are too large.
                    const float size = std::ldexp(1.0F, static_cast<int>(below(40)) - 28);
                    const ArrayFormat format(channels, layout, type, {factor() * size, -factor() * size, factor()},
                                             {factor(), -factor() * size, -factor()});
                    pixels(format, source, count);
                }
            }
        }
    }

    void pixels(const ArrayFormat& format, const Bytes& source, std::size_t count) {
        const bool planar = format.layout() == Layout::kNchw && format.channels() != Channels::kGray;
        const auto channels = static_cast<std::size_t>(channel_count(format.channels()));
        const std::size_t size = count * format.element() * (planar ? 1 : channels);
        Bytes results[2][3];
        for (auto& result : results) {
            for (Bytes& plane : result) {
                plane = Bytes(size + 1, kCanary);
            }
        }
        const auto write = [&](PixelWriter* writer, Bytes* planes) {
            std::uint8_t* const to[3] = {planes[0].data(), planar ? planes[1].data() : nullptr,
                                         planar ? planes[2].data() : nullptr};
            writer(format, source.data(), count, to);
        };
        write(kScalarKernels.write_pixels, results[0]);
        write(other_.write_pixels, results[1]);
        for (std::size_t plane = 0; plane < 3; ++plane) {
            equal(results[0][plane], results[1][plane], size, "pixels");
            untouched(results[1][plane], size, "pixels");
        }
    }

    void colors() {
        const std::size_t count = 1 + below(200);
        const Bytes planes[3] = {noise(count + kPixelSlack), noise(count + kPixelSlack), noise(count + kPixelSlack)};
        const ColorPlanes from{planes[0].data(), planes[1].data(), planes[2].data()};
        for (const bool blue_first : {false, true}) {
            Bytes results[2] = {Bytes(3 * count + 1, kCanary), Bytes(3 * count + 1, kCanary)};
            kScalarKernels.write_colors(from, count, blue_first, results[0].data());
            other_.write_colors(from, count, blue_first, results[1].data());
            equal(results[0], results[1], 3 * count, "colors");
            untouched(results[1], 3 * count, "colors");
        }
    }

    Levels levels(std::size_t size, int limit) {
        Levels levels(size);
        for (FineLevel& level : levels) {
            const auto range = static_cast<std::size_t>(2 * limit + 1);
            level = static_cast<FineLevel>(
                static_cast<int>(below(3) == 0 ? below(2) * 2 * static_cast<std::size_t>(limit) : below(range)) -
                limit);
        }
        return levels;
    }

    static Bytes bytes(const Levels& levels) {
        Bytes bytes(levels.size() * sizeof(FineLevel));
        std::memcpy(bytes.data(), levels.data(), bytes.size());
        return bytes;
    }

    void equal(const Levels& one, const Levels& other, std::size_t size, const char* what) {
        equal(bytes(one), bytes(other), size * sizeof(FineLevel), what);
        untouched(bytes(other), (size + kFineSlack) * sizeof(FineLevel), what);
    }

    static Levels canaries(std::size_t size) {
        Levels levels(size + kFineSlack + 1);
        std::memset(levels.data(), kCanary, levels.size() * sizeof(FineLevel));
        return levels;
    }

    void planes(const Axis& axis, Interpolation filter) {
        ResampleTable table;
        table.build(axis, filter);
        fine::pack_row(table);
        // With overshoots, as negative weights make them.
        constexpr int kMost = 400 << kFineBits;
        const Levels row = levels(static_cast<std::size_t>(table.source_count) + fine_slack(table), kMost);
        const auto width = static_cast<std::size_t>(table.output);
        Levels narrowed[2] = {canaries(width), canaries(width)};
        kScalarPlanes.narrow(table, row.data(), narrowed[0].data());
        other_.planes->narrow(table, row.data(), narrowed[1].data());
        equal(narrowed[0], narrowed[1], width, "narrow");

        fine::pack_column(table);
        const std::size_t size = 1 + below(200);
        std::vector<Bytes> rows;
        std::vector<const std::uint8_t*> window;
        const int count = fine::pairs(table);
        for (int i = 0; i < 2 * count; ++i) {
            rows.push_back(noise(size));
            window.push_back(rows.back().data());
        }
        for (int output = 0; output < table.output; output += 1 + static_cast<int>(below(9))) {
            Levels shortened[2] = {canaries(size), canaries(size)};
            const std::int32_t* const weights = fine::column(table, output);
            kScalarPlanes.shorten(weights, count, window.data(), shortened[0].data(), size);
            other_.planes->shorten(weights, count, window.data(), shortened[1].data(), size);
            equal(shortened[0], shortened[1], size, "shorten");
        }
    }

    void yuv() {
        constexpr int kMost = 32767;
        const std::size_t count = 1 + below(200);
        const Levels planes[3] = {levels(count + kFineSlack, kMost), levels(count + kFineSlack, kMost),
                                  levels(count + kFineSlack, kMost)};
        const YuvRow row{planes[0].data(), planes[1].data(), planes[2].data()};
        const auto factor = [&] { return static_cast<std::int16_t>(below(20000)); };
        const YuvColors colors{
            static_cast<FineLevel>(below(2) * 1024), factor(), factor(), factor(), factor(), factor()};
        for (const bool blue_first : {false, true}) {
            Bytes results[2] = {Bytes(3 * count + 1, kCanary), Bytes(3 * count + 1, kCanary)};
            kScalarPlanes.write(colors, row, count, blue_first, results[0].data());
            other_.planes->write(colors, row, count, blue_first, results[1].data());
            equal(results[0], results[1], 3 * count, "yuv");
            untouched(results[1], 3 * count, "yuv");
        }
    }

    const Kernels& other_;
    std::mt19937_64 random_;
    std::uint64_t digest_ = 0xcbf29ce484222325U;
};

}  // namespace

int main(int count, char** arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 3000;
    for (const Kernels* const variant : available_kernels()) {
        Check check(*variant);
        for (int i = 0; i < rounds; ++i) {
            check.round(static_cast<std::uint64_t>(i));
        }
        std::printf("%s: %d rounds, digest %016llx\n", variant->name, rounds,
                    static_cast<unsigned long long>(check.digest()));
    }
}
