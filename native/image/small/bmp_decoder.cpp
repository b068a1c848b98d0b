#include "image/small/bmp_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/bounded_read.h"
#include "core/limits.h"
#include "core/little_endian.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Makes indices of run lengths, one byte each.
class Runs {
  public:
    Runs(Bytes runs, const BmpHeader& header, std::uint8_t* to)
        : rest_(runs),
          four_bits_(header.kind == BmpKind::kRuns4),
          width_(static_cast<std::size_t>(header.size.width)),
          wanted_(width_ * static_cast<std::size_t>(header.size.height)),
          to_(to) {}

    // As Pillow: runs end with their row, pixels that are given one by one go on in the next, the end of a row leaves
    // none out, and what is skipped has the first colour.
    void decode() {
        while (made_ < wanted_) {
            const Bytes pair = take(2);
            const std::uint8_t what = pair[1];
            if (pair[0] > 0) {
                const std::size_t count = std::min<std::size_t>(pair[0], width_ - std::min(x_, width_));
                x_ += count;
                add(count, [&](std::size_t i) { return four_bits_ ? nibble(what, i) : what; });
            } else if (what == 0) {
                skip((width_ - made_ % width_) % width_);
                x_ = 0;
            } else if (what == 1) {
                refuse_bmp("its run lengths end before its last row does");
            } else if (what == 2) {
                const Bytes skipped = take(2);
                skip(skipped[0] + skipped[1] * width_);
                x_ = made_ % width_;
            } else {
                add_pixels(what);
            }
        }
    }

  private:
    static std::uint8_t nibble(std::uint8_t byte, std::size_t i) {
        return static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4U : byte & 0xfU);
    }

    Bytes take(std::size_t count) {
        if (rest_.size() < count) {
            refuse_bmp("the data is truncated: its run lengths end early");
        }
        const Bytes taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }

    template <typename Index>
    void add(std::size_t count, Index index) {
        count = std::min(count, wanted_ - made_);
        for (std::size_t i = 0; i < count; ++i) {
            to_[made_ + i] = index(i);
        }
        made_ += count;
    }

    void skip(std::size_t count) {
        count = std::min(count, wanted_ - made_);
        std::memset(to_ + made_, 0, count);
        made_ += count;
    }

    void add_pixels(std::size_t count) {
        const std::size_t clipped = std::min(count, wanted_ - made_);
        const std::size_t bytes = four_bits_ ? (clipped + 1) / 2 : clipped;
        const Bytes pixels = take(bytes);
        add(clipped, [&](std::size_t i) { return four_bits_ ? nibble(pixels[i / 2], i) : pixels[i]; });
        x_ += count;
        rest_ = tail(rest_, bytes % 2);
    }

    Bytes rest_;
    bool four_bits_;
    std::size_t width_;
    std::size_t wanted_;
    std::uint8_t* to_;
    std::size_t made_ = 0;
    std::size_t x_ = 0;  // How much of its row is filled, as far as the runs are concerned.
};

// Returns the index of the pixel in column `x`, the first in the highest bits.
std::uint8_t index_at(const std::uint8_t* row, std::size_t bits, std::size_t x) {
    const std::size_t bit = x * bits;
    return static_cast<std::uint8_t>((row[bit / 8] >> (8 - bits - bit % 8)) & ((1U << bits) - 1));
}

template <std::size_t kBits>
void write_indices(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    const auto width = static_cast<std::size_t>(header.size.width);
    if (kBits == 8 && header.gray && header.colors[1][0] == 1) {
        std::memcpy(to, row, width);
        return;
    }
    if (header.gray) {
        for (std::size_t x = 0; x < width; ++x) {
            to[x] = header.colors[index_at(row, kBits, x)][0];
        }
        return;
    }
    for (std::size_t x = 0; x < width; ++x) {
        std::memcpy(to + 3 * x, header.colors[index_at(row, kBits, x)].data(), 3);
    }
}

// Extends 5 or 6 bits to 8, as Pillow does.
template <unsigned kGreenBits>
void write_16_bits(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    constexpr unsigned kGreens = (1U << kGreenBits) - 1;
    const auto level = [](unsigned value, unsigned most) {
        return static_cast<std::uint8_t>((value & most) * 255 / most);
    };
    for (int x = 0; x < header.size.width; ++x, row += 2, to += 3) {
        const unsigned pixel = load_le<std::uint16_t>(row);
        to[0] = level(pixel >> (5 + kGreenBits), 31);
        to[1] = level(pixel >> 5U, kGreens);
        to[2] = level(pixel, 31);
    }
}

template <std::size_t kStep, std::size_t kChannels>
void write_bytes(const BmpHeader& header, const std::uint8_t* row, std::uint8_t* to) {
    const auto order = header.order;
    for (int x = 0; x < header.size.width; ++x, row += kStep, to += kChannels) {
        for (std::size_t channel = 0; channel < kChannels; ++channel) {
            to[channel] = row[order[channel]];
        }
    }
}

void write_row(const BmpHeader& header, const std::uint8_t* row, int channels, std::uint8_t* to) {
    switch (header.kind) {
        case BmpKind::kRuns4:
        case BmpKind::kRuns8:
            return write_indices<8>(header, row, to);
        case BmpKind::kIndices:
            return header.bits == 1   ? write_indices<1>(header, row, to)
                   : header.bits == 4 ? write_indices<4>(header, row, to)
                                      : write_indices<8>(header, row, to);
        case BmpKind::k555:
            return write_16_bits<5>(header, row, to);
        case BmpKind::k565:
            return write_16_bits<6>(header, row, to);
        case BmpKind::kBytes:
            return header.bits == 24 ? write_bytes<3, 3>(header, row, to)
                   : channels == 4   ? write_bytes<4, 4>(header, row, to)
                                     : write_bytes<4, 3>(header, row, to);
    }
}

}  // namespace

PackedShape BmpDecoder::describe(Bytes bytes, std::int64_t /*max_pixels*/) {
    header_ = read_bmp_header(bytes);
    bytes_ = bytes;
    return {header_.size, {header_.gray ? 1 : header_.has_alpha ? 4 : 3, 1}, "bmp"};
}

void BmpDecoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
    const auto [width, height] = region.box.size();
    const Bytes pixels = tail(bytes_, header_.pixels_at);
    const std::uint8_t* row = pixels.data();
    std::size_t step = header_.row_bytes();
    if (header_.has_runs()) {
        if (header_.pixels_at % 2 != 0) {
            refuse_bmp("its run lengths begin at an odd byte, from which not all readers count");
        }
        step = static_cast<std::size_t>(width);
        indices_.reserve(step * static_cast<std::size_t>(height));
        Runs(pixels, header_, indices_.data()).decode();
        row = indices_.data();
    } else {
        // The last row need not be padded.
        const std::size_t last = (static_cast<std::size_t>(width) * header_.bits + 7) / 8;
        if (pixels.size() < step * (static_cast<std::size_t>(height) - 1) + last) {
            throw MediaError("cannot decode the BMP: the data is truncated: its " + std::to_string(bytes_.size()) +
                             " bytes end before its picture does");
        }
    }
    for (int y = 0; y < height; ++y, row += step) {
        const int shown = header_.top_down ? y : height - 1 - y;
        write_row(header_, row, region.format.channels, to + row_bytes * static_cast<std::size_t>(shown));
    }
}

void BmpDecoder::forget() noexcept {
    bytes_ = {};
    if (indices_.size() > kKeptBytes) {
        indices_ = AlignedBuffer();
    }
}

}  // namespace spdl
