#include "ffmpeg/gif_picture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "core/bounded_read.h"
#include "core/lzw.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// As https://www.w3.org/Graphics/GIF/spec-gif89a.txt has them.
constexpr std::size_t kScreenSize = 13;  // The signature and the logical screen's descriptor.
constexpr std::size_t kPictureSize = 9;  // A picture's descriptor, without the byte that introduces it.
constexpr std::uint8_t kPicture = 0x2c;
constexpr std::uint8_t kExtension = 0x21;
constexpr std::uint8_t kControl = 0xf9;
constexpr std::uint8_t kTrailer = 0x3b;
constexpr std::uint8_t kInterlaced = 0x40;
constexpr std::size_t kColors = 256;

using Output = std::vector<std::uint8_t>;

[[noreturn]] void fail_truncated(Bytes gif) {
    throw MediaError("the GIF is truncated: its " + std::to_string(gif.size()) + " bytes end before its picture does");
}

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the image as gif: " + what);
}

void append(Output& output, Bytes bytes) {
    // GCC 12 takes an insertion into what is empty yet for an overflow.
    const std::size_t size = output.size();
    output.resize(size + bytes.size());
    std::ranges::copy(bytes, output.begin() + static_cast<std::ptrdiff_t>(size));
}

void append_short(Output& output, std::uint32_t value) {
    output.push_back(static_cast<std::uint8_t>(value));
    output.push_back(static_cast<std::uint8_t>(value >> 8U));
}

// Goes through a GIF, whose end it does not pass.
class Reader {
  public:
    explicit Reader(Bytes gif) : gif_(gif) {}

    Bytes take(std::size_t size) {
        if (size > gif_.size() - at_) {
            fail_truncated(gif_);
        }
        at_ += size;
        return gif_.subspan(at_ - size, size);
    }

    std::uint8_t byte() { return take(1)[0]; }

    // Returns the table that the flags of a descriptor announce.
    Bytes colors(std::uint8_t flags) {
        return (flags & 0x80U) != 0 ? take(std::size_t{3} << ((flags & 7U) + 1)) : Bytes();
    }

    // Returns the next part of a block's data; an empty one ends them.
    Bytes part() { return take(byte()); }

  private:
    Bytes gif_;
    std::size_t at_ = 0;
};

// Returns the index of the transparent colour, which an extension may say.
std::optional<std::uint8_t> transparent_in(Reader& reader) {
    std::optional<std::uint8_t> transparent;
    const bool control = reader.byte() == kControl;
    for (Bytes part = reader.part(); !part.empty(); part = reader.part()) {
        if (control && part.size() >= 4 && (part[0] & 1U) != 0) {
            transparent = part[3];
        }
    }
    return transparent;
}

// Returns whether each index, or there being no colours, stands for its own level of gray.
bool are_gray_levels(Bytes colors) {
    for (std::size_t at = 0; at < colors.size(); ++at) {
        if (colors[at] != at / 3) {
            return false;
        }
    }
    return true;
}

void append_screen(Output& output, std::uint32_t width, std::uint32_t height, Bytes colors) {
    constexpr std::uint8_t kAllColors = 0xf7;
    if (width > 0xffff || height > 0xffff) {
        fail("its picture ends " + std::to_string(width) + " pixels to the right of its screen's corner and " +
             std::to_string(height) + " below it");
    }
    append_short(output, width);
    append_short(output, height);
    output.push_back(kAllColors);
    output.push_back(0);  // The colour of what lies beside the picture.
    output.push_back(0);
    append(output, colors);
    // Indices without a colour are levels of gray if all colours are, otherwise black.
    const bool gray = are_gray_levels(colors);
    for (std::size_t level = colors.size() / 3; level < kColors; ++level) {
        output.insert(output.end(), 3, gray ? static_cast<std::uint8_t>(level) : std::uint8_t{0});
    }
}

void append_transparent(Output& output, std::uint8_t index) {
    constexpr std::uint8_t kUsesIndex = 1;
    append(output, std::to_array<std::uint8_t>({kExtension, kControl, 4, kUsesIndex, 0, 0, index, 0}));
}

// Copies the codes of a picture of so many pixels and checks that they are whole.
void append_codes(Output& output, Reader& reader, std::size_t pixels) {
    const unsigned bits = reader.byte();
    constexpr unsigned kMostBits = 11;
    if (bits < 1 || bits > kMostBits) {
        fail("its codes are said to be of " + std::to_string(bits) + " bits");
    }
    output.push_back(static_cast<std::uint8_t>(bits));
    std::vector<std::uint8_t> codes;
    for (Bytes part = reader.part(); !part.empty(); part = reader.part()) {
        append(codes, part);
        output.push_back(static_cast<std::uint8_t>(part.size()));
        append(output, part);
    }
    output.push_back(0);
    const std::optional<std::size_t> made = gif_lzw_length(codes, bits, pixels);
    if (!made) {
        fail("the codes of its pixels are damaged");
    }
    if (*made < pixels) {
        fail("its codes stand for " + std::to_string(*made) + " of its " + std::to_string(pixels) + " pixels");
    }
}

}  // namespace

Output first_gif_picture(Bytes gif) {
    Reader reader(gif);
    const Bytes screen = reader.take(kScreenSize);
    const Bytes shared_colors = reader.colors(screen[10]);
    std::optional<std::uint8_t> transparent;
    std::uint8_t kind = reader.byte();
    for (; kind != kPicture; kind = reader.byte()) {
        if (kind == kTrailer) {
            fail("there is no picture in it");
        }
        if (kind == kExtension) {
            if (const auto index = transparent_in(reader)) {
                transparent = index;
            }
        }
    }
    const Bytes picture = reader.take(kPictureSize);
    const auto number = [](Bytes bytes, std::size_t at) { return read_integer(bytes, at, 2, true); };
    const std::uint32_t width = number(picture, 4);
    const std::uint32_t height = number(picture, 6);
    if (width == 0 || height == 0) {
        fail("its picture is said to have " + std::to_string(width) + "x" + std::to_string(height) + " pixels");
    }
    const Bytes own_colors = reader.colors(picture[8]);
    const std::uint32_t right = number(picture, 0) + width;
    const std::uint32_t bottom = number(picture, 2) + height;

    Output output;
    append(output, gif.first(6));
    append_screen(output, std::max(number(screen, 6), right), std::max(number(screen, 8), bottom),
                  own_colors.empty() ? shared_colors : own_colors);
    if (transparent) {
        append_transparent(output, *transparent);
    }
    output.push_back(kPicture);
    append(output, picture.first(8));
    output.push_back(picture[8] & kInterlaced);
    append_codes(output, reader, std::size_t{width} * height);
    output.push_back(kTrailer);
    return output;
}

}  // namespace spdl
