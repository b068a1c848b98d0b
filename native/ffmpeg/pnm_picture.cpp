#include "ffmpeg/pnm_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/media_error.h"

namespace spdl {
namespace {

// As https://netpbm.sourceforge.net/doc/ has them.
constexpr std::uint32_t kMostLevels = 65535;
constexpr std::uint32_t kByteLevels = 255;

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the image as pnm: " + what);
}

bool is_space(std::uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Reads numbers as text, and knows comments.
class Reader {
  public:
    explicit Reader(Bytes bytes) : rest_(bytes) {}

    // Returns the next number. The character behind it is gone, too.
    std::uint32_t number(const char* what) {
        constexpr std::size_t kMostDigits = 9;
        std::uint32_t value = 0;
        std::size_t digits = 0;
        while (!rest_.empty()) {
            const std::uint8_t byte = take();
            if (byte == '#') {
                skip_line();
            } else if (!is_space(byte)) {
                if (byte < '0' || byte > '9' || ++digits > kMostDigits) {
                    fail(std::string(what) + " is no number, or too large a one");
                }
                value = 10 * value + (byte - '0');
            } else if (digits > 0) {
                return value;
            }
        }
        if (digits == 0) {
            fail(std::string("it ends before ") + what);
        }
        return value;
    }

    // Returns the next bit, which needs no character behind it.
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
        fail("it ends before its last pixel");
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

struct Header {
    std::uint32_t kind;  // The digit behind the P.
    std::size_t width;
    std::size_t height;
    std::uint32_t levels = 1;  // The largest sample.

    [[nodiscard]] bool is_text() const { return kind <= 3; }
    [[nodiscard]] bool is_bits() const { return kind == 1 || kind == 4; }
    [[nodiscard]] std::size_t samples() const { return width * height * (kind == 3 || kind == 6 ? 3 : 1); }
    [[nodiscard]] std::size_t sample_bytes() const { return levels > kByteLevels ? 2 : 1; }
};

Header read_header(Reader& reader, Bytes pnm) {
    constexpr std::size_t kMostSide = 1 << 24;  // FFmpeg knows the real limit.
    Header header{static_cast<std::uint32_t>(pnm[1] - '0'), 0, 0};
    header.width = reader.number("its width");
    header.height = reader.number("its height");
    if (header.width < 1 || header.height < 1 || header.width > kMostSide || header.height > kMostSide) {
        fail("its size is said to be " + std::to_string(header.width) + "x" + std::to_string(header.height));
    }
    if (!header.is_bits()) {
        header.levels = reader.number("its largest level");
        if (header.levels < 1 || header.levels > kMostLevels) {
            fail("its largest level is said to be " + std::to_string(header.levels) + ": from 1 to " +
                 std::to_string(kMostLevels) + " are possible");
        }
    }
    return header;
}

// Scales samples as Pillow does: to the nearest level, halves to even. Larger ones are cut.
class Scale {
  public:
    explicit Scale(const Header& header)
        : from_(header.levels), to_(header.sample_bytes() == 2 ? kMostLevels : kByteLevels) {}

    std::uint32_t operator()(std::uint32_t sample) const {
        if (from_ == to_) {
            return sample;
        }
        const double level = static_cast<double>(sample) / from_ * to_;
        return std::min(to_, static_cast<std::uint32_t>(std::nearbyint(level)));
    }

  private:
    std::uint32_t from_;
    std::uint32_t to_;
};

void append(std::vector<std::uint8_t>& to, std::uint32_t sample, std::size_t bytes) {
    if (bytes == 2) {
        to.push_back(static_cast<std::uint8_t>(sample >> 8U));
    }
    to.push_back(static_cast<std::uint8_t>(sample));
}

void write_header(const Header& header, std::vector<std::uint8_t>& to) {
    const std::uint32_t kind = header.is_text() ? header.kind + 3 : header.kind;
    std::string text = std::string("P") + std::to_string(kind) + "\n" + std::to_string(header.width) + " " +
                       std::to_string(header.height) + "\n";
    if (!header.is_bits()) {
        text += std::to_string(header.sample_bytes() == 2 ? kMostLevels : kByteLevels) + "\n";
    }
    to.insert(to.end(), text.begin(), text.end());
}

void write_text_bits(const Header& header, Reader& reader, std::vector<std::uint8_t>& to) {
    for (std::size_t y = 0; y < header.height; ++y) {
        for (std::size_t x = 0; x < header.width; ++x) {
            if (x % 8 == 0) {
                to.push_back(0);
            }
            if (reader.bit()) {
                to.back() = static_cast<std::uint8_t>(to.back() | 0x80U >> x % 8);
            }
        }
    }
}

void write_text(const Header& header, Reader& reader, std::vector<std::uint8_t>& to) {
    const Scale scale(header);
    for (std::size_t i = 0; i < header.samples(); ++i) {
        const std::uint32_t sample = reader.number("its last pixel");
        if (sample > header.levels) {
            fail("it has a sample of " + std::to_string(sample) + ", above its largest level of " +
                 std::to_string(header.levels));
        }
        append(to, scale(sample), header.sample_bytes());
    }
}

void write_binary(const Header& header, Bytes samples, std::vector<std::uint8_t>& to) {
    const std::size_t bytes =
        header.is_bits() ? (header.width + 7) / 8 * header.height : header.samples() * header.sample_bytes();
    if (samples.size() < bytes) {
        fail("its pixels take " + std::to_string(bytes) + " bytes, and it has " + std::to_string(samples.size()));
    }
    const Bytes wanted = samples.first(bytes);
    if (header.is_bits() || header.levels == kByteLevels || header.levels == kMostLevels) {
        to.insert(to.end(), wanted.begin(), wanted.end());
        return;
    }
    const Scale scale(header);
    const std::size_t step = header.sample_bytes();
    for (std::size_t at = 0; at < bytes; at += step) {
        append(to, scale(step == 2 ? wanted[at] << 8U | wanted[at + 1] : wanted[at]), step);
    }
}

}  // namespace

std::vector<std::uint8_t> plain_pnm(Bytes pnm) {
    Reader reader(pnm.subspan(2));
    const Header header = read_header(reader, pnm);
    if (header.is_text() && header.samples() > reader.rest().size()) {
        fail("its " + std::to_string(header.samples()) + " samples are not in its " + std::to_string(pnm.size()) +
             " bytes");
    }
    std::vector<std::uint8_t> plain;
    write_header(header, plain);
    if (header.kind == 1) {
        write_text_bits(header, reader, plain);
    } else if (header.is_text()) {
        write_text(header, reader, plain);
    } else {
        write_binary(header, reader.rest(), plain);
    }
    return plain;
}

}  // namespace spdl
