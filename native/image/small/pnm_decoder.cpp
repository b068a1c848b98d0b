#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/errors.h"
#include "media/decoder.h"

namespace spdl {
namespace {

// The first picture of a PBM, PGM or PPM.
struct PnmPicture {
    unsigned kind = 0;  // The digit after the P.
    Size size;
    std::uint32_t levels = 1;  // The largest sample.
    bool unscaled = false;     // Samples stay as they are.
    Bytes samples;             // And what follows.

    [[nodiscard]] bool is_text() const { return kind <= 3; }
    [[nodiscard]] bool is_bits() const { return kind == 1 || kind == 4; }
    [[nodiscard]] int channels() const { return kind == 3 || kind == 6 ? 3 : 1; }
    [[nodiscard]] int sample_bytes() const { return levels > 255 ? 2 : 1; }
    [[nodiscard]] std::size_t row_samples() const {
        return static_cast<std::size_t>(size.width * std::int64_t{channels()});
    }

    // Of one in binary.
    [[nodiscard]] std::size_t row_bytes() const {
        return is_bits() ? (row_samples() + 7) / 8 : row_samples() * static_cast<std::size_t>(sample_bytes());
    }
};

// As https://netpbm.sourceforge.net/doc/ has them.
constexpr std::uint32_t kMostLevels = 65535;
constexpr std::uint32_t kByteLevels = 255;

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the PNM: " + what);
}

bool is_space(std::uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Reads numbers as text, and knows comments, which may also stand within a number.
class Reader {
  public:
    explicit Reader(Bytes bytes) : rest_(bytes) {}

    // Returns the next number. The character after it is gone, too.
    std::uint64_t number(const char* what) {
        constexpr std::size_t kMostDigits = 10;
        std::uint64_t value = 0;
        std::size_t digits = 0;
        while (!rest_.empty()) {
            const std::uint8_t byte = take();
            if (byte == '#') {
                skip_line();
            } else if (!is_space(byte)) {
                if (byte < '0' || byte > '9' || ++digits > kMostDigits) {
                    fail(std::string(what) + " is not a number, or too large");
                }
                value = 10 * value + (byte - '0');
            } else if (digits > 0) {
                return value;
            }
        }
        if (digits == 0) {
            fail(std::string("the data is truncated: it ends before ") + what);
        }
        return value;
    }

    // Returns the next bit, which needs no character after it.
    bool bit() {
        while (!rest_.empty()) {
            const std::uint8_t byte = take();
            if (byte == '#') {
                skip_line();
            } else if (byte == '0' || byte == '1') {
                return byte == '1';
            } else if (!is_space(byte)) {
                fail("one of its bits is neither 0 nor 1");
            }
        }
        fail("the data is truncated: it ends before its last pixel");
    }

    [[nodiscard]] Bytes rest() const { return rest_; }

  private:
    std::uint8_t take() {
        const std::uint8_t byte = rest_.front();
        rest_ = rest_.subspan(1);
        return byte;
    }

    void skip_line() {
        while (!rest_.empty()) {
            const std::uint8_t byte = take();
            if (byte == '\r' || byte == '\n') {
                return;
            }
        }
    }

    Bytes rest_;
};

// Returns the samples of the next row of a picture in text.
void read_text(const PnmPicture& picture, Reader& reader, std::vector<std::uint16_t>& row) {
    for (std::uint16_t& sample : row) {
        if (picture.is_bits()) {
            sample = reader.bit() ? 0 : 1;
            continue;
        }
        const std::uint64_t value = reader.number("its last pixel");
        if (value > picture.levels) {
            fail("it has a sample of " + std::to_string(value) + ", above its largest level of " +
                 std::to_string(picture.levels));
        }
        sample = static_cast<std::uint16_t>(value);
    }
}

// Returns the samples of a row in binary.
void read_binary(const PnmPicture& picture, const std::uint8_t* from, std::vector<std::uint16_t>& row) {
    if (picture.is_bits()) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            row[i] = ~from[i / 8] >> (7 - i % 8) & 1;
        }
    } else if (picture.sample_bytes() == 2) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            row[i] = static_cast<std::uint16_t>(from[2 * i] << 8U | from[2 * i + 1]);
        }
    } else {
        std::copy_n(from, row.size(), row.begin());
    }
}

// Scales samples as Pillow does: to the nearest level, halves to even. Larger ones are cut.
std::uint16_t scaled(std::uint16_t sample, std::uint32_t from, std::uint32_t to) {
    const double level = static_cast<double>(sample) / from * to;
    return static_cast<std::uint16_t>(std::min(to, static_cast<std::uint32_t>(std::nearbyint(level))));
}

// Scales samples of a byte.
void write_narrow(const std::array<std::uint8_t, kByteLevels + 1>& levels, const std::vector<std::uint16_t>& row,
                  std::uint8_t* to) {
    for (const std::uint16_t sample : row) {
        *to++ = levels[sample];
    }
}

// Scales others.
void write_wide(const PnmPicture& picture, std::vector<std::uint16_t>& row, int sample_bytes, std::uint8_t* to) {
    const bool color = picture.channels() == 3;
    if (color && sample_bytes == 1) {
        for (const std::uint16_t sample : row) {
            *to++ = static_cast<std::uint8_t>(scaled(sample, picture.levels, kByteLevels));
        }
        return;
    }
    if (picture.levels != kMostLevels && !picture.unscaled) {
        for (std::uint16_t& sample : row) {
            sample = scaled(sample, picture.levels, kMostLevels);
        }
    }
    if (sample_bytes == 2) {
        std::memcpy(to, row.data(), 2 * row.size());
        return;
    }
    // In Pillow, gray has 16 bits; the upper ones are kept.
    for (const std::uint16_t sample : row) {
        *to++ = static_cast<std::uint8_t>(sample >> 8U);
    }
}

PnmPicture read_header(Bytes pnm) {
    PnmPicture picture{.kind = pnm[1] - unsigned{'0'}, .size = {}, .samples = {}};
    Reader reader(pnm.subspan(2));
    const std::uint64_t width = reader.number("its width");
    const std::uint64_t height = reader.number("its height");
    constexpr std::uint64_t kMostSide = std::numeric_limits<int>::max();
    if (width < 1 || height < 1 || width > kMostSide || height > kMostSide) {
        fail("its size is said to be " + std::to_string(width) + "x" + std::to_string(height));
    }
    picture.size = {static_cast<int>(width), static_cast<int>(height)};
    if (!picture.is_bits()) {
        const std::uint64_t levels = reader.number("its largest level");
        if (levels < 1 || levels > kMostLevels) {
            fail("its largest level is said to be " + std::to_string(levels) + ": from 1 to " +
                 std::to_string(kMostLevels) + " are possible");
        }
        picture.levels = static_cast<std::uint32_t>(levels);
    }
    picture.samples = reader.rest();
    return picture;
}

void check_size(const PnmPicture& picture) {
    // Each sample in text takes a byte or more.
    const std::size_t row = picture.is_text() ? picture.row_samples() : picture.row_bytes();
    const auto height = static_cast<std::size_t>(picture.size.height);
    if (picture.samples.size() / row < height) {
        fail("the data is truncated: its " + std::to_string(height) + " rows of " + std::to_string(row) +
             (picture.is_text() ? " samples" : " bytes") + " are not in the " + std::to_string(picture.samples.size()) +
             " bytes behind its header");
    }
}

// Decodes PBM, PGM and PPM as Pillow does: samples are scaled to 255 or 65535.
class PnmDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override {
        return format == ImageFormat::kPbm || format == ImageFormat::kPgm || format == ImageFormat::kPpm;
    }

    PackedShape describe(Bytes bytes, std::int64_t /*max_pixels*/) override {
        picture_ = read_header(bytes);
        constexpr const char* kCodecs[] = {"pbm", "pgm", "ppm"};
        return {picture_.size, {picture_.channels(), picture_.sample_bytes()}, kCodecs[(picture_.kind - 1) % 3]};
    }

    // Bits are not levels: 1 is black.
    StoredIds show_ids() override {
        picture_.unscaled = picture_.channels() == 1 && !picture_.is_bits();
        return picture_.unscaled ? StoredIds{StoredIds::Kind::kLevels, 8 * picture_.sample_bytes()} : StoredIds();
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        const int height = region.box.size().height;
        check_size(picture_);
        const std::uint8_t* from = picture_.samples.data();
        if (!picture_.is_text() && picture_.levels == kByteLevels) {
            for (int y = 0; y < height; ++y, to += row_bytes, from += picture_.row_bytes()) {
                std::memcpy(to, from, picture_.row_bytes());
            }
            return;
        }
        std::array<std::uint8_t, kByteLevels + 1> levels;
        for (std::uint16_t sample = 0; sample < levels.size(); ++sample) {
            levels[sample] =
                static_cast<std::uint8_t>(picture_.unscaled ? sample : scaled(sample, picture_.levels, kByteLevels));
        }
        Reader reader(picture_.samples);
        std::vector<std::uint16_t> row(picture_.row_samples());
        for (int y = 0; y < height; ++y, to += row_bytes) {
            if (picture_.is_text()) {
                read_text(picture_, reader, row);
            } else {
                read_binary(picture_, from, row);
                from += picture_.row_bytes();
            }
            if (picture_.sample_bytes() == 1) {
                write_narrow(levels, row, to);
            } else {
                write_wide(picture_, row, region.format.sample_bytes, to);
            }
        }
    }

    void forget() noexcept override { picture_ = {}; }

  private:
    PnmPicture picture_;
};

}  // namespace

extern const Backend pnm_backend;
const Backend pnm_backend{"pnm", "decodes PBM, PGM and PPM only, without FFmpeg's options", make_decoder<PnmDecoder>};

}  // namespace spdl
