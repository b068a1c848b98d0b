#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "core/errors.h"
#include "media/decoder.h"

namespace spdl {
namespace {

// As https://qoiformat.org/qoi-specification.pdf has it.
constexpr std::size_t kHeader = 14;
constexpr std::uint8_t kRgb = 0xfe;
constexpr std::uint8_t kRgba = 0xff;
constexpr unsigned kIndex = 0;
constexpr unsigned kDifference = 1;
constexpr unsigned kLuma = 2;
constexpr std::size_t kMostPixels = 62;  // That a byte stands for.

[[noreturn]] void fail_truncated(Bytes qoi) {
    throw MediaError("cannot decode the QOI: the data is truncated: its " + std::to_string(qoi.size()) +
                     " bytes end before its picture does");
}

using Pixel = std::array<std::uint8_t, 4>;

// Makes one pixel after the other from the chunks.
class Chunks {
  public:
    explicit Chunks(Bytes qoi) : qoi_(qoi), rest_(qoi.subspan(kHeader)) {}

    const Pixel& next() {
        if (run_ > 0) {
            --run_;
            return pixel_;
        }
        const std::uint8_t byte = take(1)[0];
        if (byte == kRgb || byte == kRgba) {
            std::ranges::copy(take(byte == kRgb ? 3 : 4), pixel_.begin());
        } else if (byte >> 6U == kIndex) {
            pixel_ = seen_[byte];
        } else if (byte >> 6U == kDifference) {
            add((byte >> 4U & 3U) - 2, (byte >> 2U & 3U) - 2, (byte & 3U) - 2);
        } else if (byte >> 6U == kLuma) {
            const unsigned green = (byte & 0x3fU) - 32;
            const std::uint8_t others = take(1)[0];
            add(green + (others >> 4U) - 8, green, green + (others & 0xfU) - 8);
        } else {
            // Pillow does not note the pixel of a run, which matters for black at the beginning only.
            run_ = byte & 0x3fU;
            return pixel_;
        }
        seen_[(pixel_[0] * 3U + pixel_[1] * 5U + pixel_[2] * 7U + pixel_[3] * 11U) % seen_.size()] = pixel_;
        return pixel_;
    }

  private:
    Bytes take(std::size_t count) {
        if (rest_.size() < count) {
            fail_truncated(qoi_);
        }
        const Bytes taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }

    void add(unsigned red, unsigned green, unsigned blue) {
        pixel_[0] = static_cast<std::uint8_t>(pixel_[0] + red);
        pixel_[1] = static_cast<std::uint8_t>(pixel_[1] + green);
        pixel_[2] = static_cast<std::uint8_t>(pixel_[2] + blue);
    }

    Bytes qoi_;
    Bytes rest_;
    Pixel pixel_{0, 0, 0, 255};
    std::array<Pixel, 64> seen_{};
    unsigned run_ = 0;
};

// Decodes QOI as Pillow does. The mark at the end may be missing.
class QoiDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kQoi; }

    PackedShape describe(Bytes bytes, std::int64_t /*max_pixels*/) override {
        if (bytes.size() < kHeader) {
            fail_truncated(bytes);
        }
        const std::uint32_t width = read_integer(bytes, 4, 4, false);
        const std::uint32_t height = read_integer(bytes, 8, 4, false);
        constexpr std::uint32_t kMostSide = std::numeric_limits<int>::max();
        if (width == 0 || height == 0 || width > kMostSide || height > kMostSide) {
            throw MediaError("cannot decode the QOI: its size is said to be " + std::to_string(width) + "x" +
                             std::to_string(height));
        }
        bytes_ = bytes;
        return {{static_cast<int>(width), static_cast<int>(height)}, {bytes[12] == 3 ? 3 : 4, 1}, "qoi"};
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        const std::size_t step = region.format.pixel_bytes();
        const auto [width, height] = region.box.size();
        if (static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) / kMostPixels > bytes_.size()) {
            fail_truncated(bytes_);
        }
        Chunks chunks(bytes_);
        for (int y = 0; y < height; ++y, to += row_bytes) {
            std::uint8_t* pixel = to;
            for (int x = 0; x < width; ++x, pixel += step) {
                std::memcpy(pixel, chunks.next().data(), step);
            }
        }
    }

    void forget() noexcept override { bytes_ = {}; }

  private:
    Bytes bytes_;
};

}  // namespace

extern const Backend qoi_backend;
const Backend qoi_backend{"qoi", "decodes QOI only, without FFmpeg's options", make_decoder<QoiDecoder>};

}  // namespace spdl
