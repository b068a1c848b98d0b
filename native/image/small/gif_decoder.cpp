#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "media/decoder.h"

namespace spdl {
namespace {

// How many bytes after those that are wanted may be written.
constexpr std::size_t kLzwSlack = 8;

constexpr unsigned kMostBits = 12;

// Takes codes from the bytes, the lowest bit first.
class Codes {
  public:
    explicit Codes(Bytes bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

    // Returns nothing if the bytes end.
    std::optional<unsigned> next(unsigned width) {
        if (held_ < width && !fill(width)) {
            return std::nullopt;
        }
        const auto code = static_cast<unsigned>(bits_ & ((1U << width) - 1));
        bits_ >>= width;
        held_ -= width;
        return code;
    }

  private:
    bool fill(unsigned width) {
        constexpr unsigned kWord = 8;
        if (end_ - at_ >= static_cast<std::ptrdiff_t>(kWord)) {
            // Bytes that do not fit are read again.
            bits_ |= load_le<std::uint64_t>(at_) << held_;
            at_ += (63 - held_) / 8;
            held_ |= 56U;
            return true;
        }
        while (held_ < width) {
            if (at_ == end_) {
                return false;
            }
            bits_ |= std::uint64_t{*at_++} << held_;
            held_ += 8;
        }
        return true;
    }

    const std::uint8_t* at_;
    const std::uint8_t* end_;
    std::uint64_t bits_ = 0;
    unsigned held_ = 0;
};

// Copies bytes that may reach into what is written.
void repeat(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
    if (to - from < static_cast<std::ptrdiff_t>(kLzwSlack)) {
        for (std::size_t i = 0; i < count; ++i) {
            to[i] = from[i];
        }
        return;
    }
    for (std::size_t i = 0; i < count; i += kLzwSlack) {
        std::memcpy(to + i, from + i, kLzwSlack);
    }
}

// The bytes that a code stands for: they were made before.
struct String {
    std::size_t at;
    std::size_t length;
};

// Decodes the LZW codes of a GIF until `wanted` bytes are made, and returns how many were; nothing if a code means
// nothing. `bits` is the size of the bytes, 1 to 11; the lower eight are kept.
std::optional<std::size_t> decode_gif_lzw(Bytes bytes, unsigned bits, std::uint8_t* to, std::size_t wanted) {
    const unsigned clear = 1U << bits;
    const unsigned end = clear + 1;
    std::array<String, 1U << kMostBits> strings;  // NOLINT(*-member-init): those below `next`, after `end`, are known.
    unsigned next = end + 1;
    unsigned width = bits + 1;
    String last{0, 0};  // What the last code stood for; empty after a clear code.
    std::size_t made = 0;
    Codes codes(bytes);
    while (made < wanted) {
        const std::optional<unsigned> read = codes.next(width);
        if (!read || *read == end) {
            return made;
        }
        const unsigned code = *read;
        if (code == clear) {
            next = end + 1;
            width = bits + 1;
            last.length = 0;
            continue;
        }
        // A code may stand for the string that it ends: the last one and its own first byte.
        if (last.length == 0 ? code > clear : code > next || (code == next && next == strings.size())) {
            return std::nullopt;
        }
        const String longer{last.at, last.length + 1};
        String now{made, 1};
        if (code < clear) {
            to[made] = static_cast<std::uint8_t>(code);
        } else {
            const String& string = code == next ? longer : strings[code];
            now.length = std::min(string.length, wanted - made);
            repeat(to + string.at, to + made, now.length);
        }
        if (last.length > 0 && next < strings.size()) {
            strings[next] = longer;
            if (++next == 1U << width && width < kMostBits) {
                ++width;
            }
        }
        last = now;
        made += now.length;
    }
    return wanted;
}

// The first picture of a GIF.
struct GifPicture {
    Size screen;
    Box box;       // On the screen.
    Bytes colors;  // Three bytes each; none if the pixels are levels of gray.
    std::optional<std::uint8_t> transparent;
    bool interlaced = false;
    unsigned bits = 0;  // Of a pixel's LZW code.
    Bytes data;         // The parts of the codes, and what follows.
};

// As https://www.w3.org/Graphics/GIF/spec-gif89a.txt has them.
constexpr std::size_t kScreenSize = 13;  // The signature and the logical screen's descriptor.
constexpr std::size_t kPictureSize = 9;  // A picture's descriptor, without the byte that introduces it.
constexpr std::uint8_t kPicture = 0x2c;
constexpr std::uint8_t kExtension = 0x21;
constexpr std::uint8_t kControl = 0xf9;
constexpr std::uint8_t kComment = 0xfe;
constexpr std::uint8_t kTrailer = 0x3b;
constexpr std::uint8_t kInterlaced = 0x40;
constexpr std::size_t kColors = 256;
constexpr unsigned kMostFirstBits = 11;
constexpr std::size_t kMostBytes = 4096;  // That a code stands for.

[[noreturn]] void fail(const std::string& what) {
    throw MediaError("cannot decode the GIF: " + what);
}

// Goes through a GIF, whose end it does not pass.
class Reader {
  public:
    explicit Reader(Bytes gif) : gif_(gif) {}

    Bytes take(std::size_t size) {
        if (size > gif_.size() - at_) {
            fail("the data is truncated: its " + std::to_string(gif_.size()) + " bytes end before its picture begins");
        }
        at_ += size;
        return gif_.subspan(at_ - size, size);
    }

    std::uint8_t byte() { return take(1)[0]; }

    // Returns the table that the flags of a descriptor announce.
    std::optional<Bytes> colors(std::uint8_t flags) {
        return (flags & 0x80U) != 0 ? std::optional(take(std::size_t{3} << ((flags & 7U) + 1))) : std::nullopt;
    }

    // Returns the next part of a block's data; an empty one ends them.
    Bytes part() { return take(byte()); }

    [[nodiscard]] Bytes rest() const { return gif_.subspan(at_); }

  private:
    Bytes gif_;
    std::size_t at_ = 0;
};

// Reads an extension, which may say what the index of the transparent colour is.
void read_extension(Reader& reader, std::optional<std::uint8_t>& transparent) {
    constexpr std::size_t kControlSize = 4;
    const std::uint8_t label = reader.byte();
    Bytes part = reader.part();
    // Readers differ in where the picture then begins.
    if (label != kComment && part.size() < (label == kControl ? kControlSize : 1)) {
        fail("an extension in front of its picture ends early");
    }
    if (label == kControl && (part[0] & 1U) != 0) {
        transparent = part[3];
    }
    while (!part.empty()) {
        part = reader.part();
    }
}

// Returns whether each index stands for its own level of gray.
bool are_gray_levels(Bytes colors) {
    for (std::size_t at = 0; at < colors.size(); ++at) {
        if (colors[at] != at / 3) {
            return false;
        }
    }
    return true;
}

GifPicture read_picture(Bytes gif) {
    Reader reader(gif);
    const Bytes screen = reader.take(kScreenSize);
    const std::optional<Bytes> shared_colors = reader.colors(screen[10]);
    GifPicture found;
    std::uint8_t kind = reader.byte();
    for (; kind != kPicture; kind = reader.byte()) {
        if (kind == kTrailer) {
            fail("there is no picture in it");
        }
        if (kind == kExtension) {
            read_extension(reader, found.transparent);
        }
    }
    const Bytes picture = reader.take(kPictureSize);
    const auto number = [](Bytes bytes, std::size_t at) { return static_cast<int>(read_integer(bytes, at, 2, true)); };
    const Size size{number(picture, 4), number(picture, 6)};
    if (size.width == 0 || size.height == 0) {
        fail("its picture is said to have " + std::to_string(size.width) + "x" + std::to_string(size.height) +
             " pixels");
    }
    const int left = number(picture, 0);
    const int top = number(picture, 2);
    found.box = {left, top, left + size.width, top + size.height};
    found.screen = {std::max(number(screen, 6), found.box.right), std::max(number(screen, 8), found.box.bottom)};
    const std::optional<Bytes> own_colors = reader.colors(picture[8]);
    found.colors = own_colors.value_or(shared_colors.value_or(Bytes()));
    if (are_gray_levels(found.colors)) {
        found.colors = {};
    }
    found.interlaced = (picture[8] & kInterlaced) != 0;
    found.bits = reader.byte();
    if (found.bits < 1 || found.bits > kMostFirstBits) {
        fail("its codes are said to be of " + std::to_string(found.bits) + " bits");
    }
    found.data = reader.rest();
    return found;
}

// A pixel of each index.
using Pixels = std::array<std::array<std::uint8_t, 4>, kColors>;

Pixels pixels_of(const GifPicture& picture, const PackedFormat& format) {
    const bool gray = picture.colors.empty();
    Pixels pixels{};
    for (std::size_t index = 0; index < kColors; ++index) {
        auto& pixel = pixels[index];
        if (gray) {
            pixel.fill(static_cast<std::uint8_t>(index));
        } else if (3 * index < picture.colors.size()) {
            std::ranges::copy(picture.colors.subspan(3 * index, 3), pixel.begin());
        }
        if (format.has_alpha()) {
            pixel[static_cast<std::size_t>(format.channels) - 1] = picture.transparent == index ? 0 : 0xff;
        }
    }
    return pixels;
}

template <std::size_t kChannels>
void write_row(const Pixels& pixels, const std::uint8_t* indices, std::size_t count, std::uint8_t* to) {
    for (std::size_t x = 0; x < count; ++x, to += kChannels) {
        std::memcpy(to, pixels[indices[x]].data(), kChannels);
    }
}

// Decodes the first picture of a GIF as Pillow does: the screen is as large as the picture needs, what lies beside it
// has the transparent colour, or else the first, and pixels without a colour are black.
class GifDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kGif; }

    PackedShape describe(Bytes bytes, std::int64_t /*max_pixels*/) override {
        picture_ = read_picture(bytes);
        const int colors = picture_.colors.empty() ? 1 : 3;
        return {picture_.screen, {colors + (picture_.transparent ? 1 : 0), 1}, "gif"};
    }

    StoredIds show_ids() override {
        picture_.colors = {};
        return {StoredIds::Kind::kIndices, 8};
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        decode_indices();
        const Pixels pixels = pixels_of(picture_, region.format);
        const auto write = std::array{write_row<1>, write_row<2>, write_row<3>,
                                      write_row<4>}[static_cast<std::size_t>(region.format.channels) - 1];
        const auto screen_width = static_cast<std::size_t>(picture_.screen.width);
        if (picture_.box != whole(picture_.screen)) {
            const std::vector<std::uint8_t> beside(screen_width, picture_.transparent.value_or(0));
            for (int y = 0; y < picture_.screen.height; ++y) {
                write(pixels, beside.data(), screen_width, to + row_bytes * static_cast<std::size_t>(y));
            }
        }
        struct Pass {
            int first;
            int step;
        };
        constexpr std::array<Pass, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
        constexpr std::array<Pass, 1> kPlain = {{{0, 1}}};
        const auto [width, height] = picture_.box.size();
        const std::uint8_t* row = indices_.data();
        to += region.format.pixel_bytes() * static_cast<std::size_t>(picture_.box.left);
        for (const auto& [first, step] : picture_.interlaced ? std::span<const Pass>(kPasses) : kPlain) {
            for (int y = first; y < height; y += step, row += width) {
                write(pixels, row, static_cast<std::size_t>(width),
                      to + row_bytes * static_cast<std::size_t>(picture_.box.top + y));
            }
        }
    }

    void forget() noexcept override {
        picture_ = {};
        if (codes_.capacity() > kKeptBytes) {
            codes_ = {};
        }
        indices_.shrink();
    }

  private:
    // Decodes the picture to one byte per pixel, in the order in which its rows are stored.
    void decode_indices() {
        const Size size = picture_.box.size();
        const std::size_t pixels = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
        const std::size_t codes = picture_.data.size() * 8 / (picture_.bits + 1);
        if (pixels / kMostBytes > codes) {
            fail("its " + std::to_string(picture_.data.size()) + " bytes cannot hold its " + std::to_string(pixels) +
                 " pixels");
        }
        codes_.clear();
        bool cut = true;
        // Parts that are not all there do not count, as in Pillow.
        for (Bytes rest = picture_.data; !rest.empty();) {
            const std::size_t length = rest[0];
            if (length == 0) {
                cut = false;
                break;
            }
            if (length >= rest.size()) {
                break;
            }
            const Bytes part = rest.subspan(1, length);
            codes_.insert(codes_.end(), part.begin(), part.end());
            rest = rest.subspan(1 + length);
        }
        indices_.reserve(pixels + kLzwSlack);
        const std::optional<std::size_t> made = decode_gif_lzw(codes_, picture_.bits, indices_.data(), pixels);
        if (!made) {
            fail("the codes of its pixels are damaged");
        }
        if (*made < pixels) {
            fail((cut ? "the data is truncated: its codes stand for " : "its codes stand for ") +
                 std::to_string(*made) + " of its " + std::to_string(pixels) + " pixels");
        }
    }

    GifPicture picture_;
    std::vector<std::uint8_t> codes_;
    AlignedBuffer indices_;
};

}  // namespace

extern const Backend gif_backend;
const Backend gif_backend{"gif", "decodes GIF only, without FFmpeg's options", make_decoder<GifDecoder>};

}  // namespace spdl
