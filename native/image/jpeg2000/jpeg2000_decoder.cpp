#include <openjpeg.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "core/non_copyable.h"
#include "image/jpeg2000/jpeg2000_header.h"
#include "media/decoder.h"
#include "media/pixel_format.h"

namespace spdl {
namespace {

// The meaning of a picture's samples; alpha may follow the colours.
enum class Jpeg2000Colors {
    kPlain,  // Gray or RGB.
    kYcc,    // The YCbCr of JFIF, with all levels.
    kCmyk,   // Ink, of which the largest value is most.
};

constexpr int kInks = 4;
constexpr std::size_t kColors = 3;

template <typename Sample>
constexpr std::int32_t kMost = std::numeric_limits<Sample>::max();

template <typename Sample>
constexpr int kBits = std::numeric_limits<Sample>::digits;

// The samples of a component as levels from 0 on.
class Levels {
  public:
    explicit Levels(const opj_image_comp_t& component)
        : bits_(static_cast<int>(component.prec)),
          lowest_(component.sgnd != 0 ? -(std::int64_t{1} << (bits_ - 1)) : 0),
          most_((std::int64_t{1} << bits_) - 1) {}

    [[nodiscard]] int bits() const { return bits_; }

    std::int64_t operator()(OPJ_INT32 sample) const { return std::clamp<std::int64_t>(sample - lowest_, 0, most_); }

  private:
    int bits_;
    std::int64_t lowest_;
    std::int64_t most_;
};

// White becomes white: fewer bits are stretched, and of more the upper ones are kept.
template <typename Sample>
Sample sample_of(std::int64_t level, int bits) {
    if (bits >= kBits<Sample>) {
        return static_cast<Sample>(level >> (bits - kBits<Sample>));
    }
    const std::int64_t most = (std::int64_t{1} << bits) - 1;
    return static_cast<Sample>((level * kMost<Sample> + most / 2) / most);
}

template <typename Sample>
void write_samples(const opj_image_comp_t& component, const OPJ_INT32* from, std::size_t count, int step, Sample* to) {
    const auto pixels = [&](const auto& convert) {
        for (std::size_t x = 0; x < count; ++x, to += step) {
            *to = convert(from[x]);
        }
    };
    const Levels level(component);
    if (level.bits() == kBits<Sample> && component.sgnd == 0) {
        pixels([](OPJ_INT32 sample) { return static_cast<Sample>(sample); });
    } else {
        pixels([=](OPJ_INT32 sample) { return sample_of<Sample>(level(sample), level.bits()); });
    }
}

// Converts YCbCr of other than 8 bits before bits are cut or levels are stretched.
template <typename Sample>
void write_ycc(const opj_image_comp_t* components, const std::array<const OPJ_INT32*, kColors>& rows, std::size_t count,
               int step, Sample* to) {
    const std::array<Levels, kColors> levels{Levels(components[0]), Levels(components[1]), Levels(components[2])};
    const int bits = std::max({levels[0].bits(), levels[1].bits(), levels[2].bits()});
    const auto most = static_cast<double>((std::int64_t{1} << bits) - 1);
    const auto middle = static_cast<double>(std::int64_t{1} << (bits - 1));
    for (std::size_t x = 0; x < count; ++x, to += step) {
        const auto level = [&](std::size_t i) {
            return static_cast<double>(levels[i](rows[i][x]) << (bits - levels[i].bits()));
        };
        const auto sample = [=](double value) {
            return sample_of<Sample>(static_cast<std::int64_t>(std::clamp(value + 0.5, 0.0, most)), bits);
        };
        const double luma = level(0);
        const double blue = level(1) - middle;
        const double red = level(2) - middle;
        to[0] = sample(luma + 1.402 * red);
        to[1] = sample(luma - 0.344136 * blue - 0.714136 * red);
        to[2] = sample(luma + 1.772 * blue);
    }
}

// As Pillow does: light is what neither black nor the ink of a colour takes.
template <typename Sample>
void cmyk_to_rgb(const Sample* inks, Sample* rgb) {
    constexpr std::int64_t most = kMost<Sample>;
    const std::int64_t light = most - inks[3];
    for (int i = 0; i < 3; ++i) {
        rgb[i] = static_cast<Sample>(light - (2 * light * inks[i] + most) / (2 * most));
    }
}

// Writes the rows of a decoded picture as packed pixels.
class ComponentRows {
  public:
    // The picture, or the part of it that was decoded, is halved that often. `place` is what is wanted of it, on its
    // grid, which is halved alike. Each component has samples.
    ComponentRows(const opj_image_t& image, Jpeg2000Colors colors, int halvings, Box place)
        : image_(image), colors_(colors), halvings_(halvings), place_(place) {}

    void write(const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes) {
        const Size size = place_.size();
        const auto write_rows = [&]<typename Sample>(Sample /*kind*/) {
            std::vector<Sample> inks;
            if (colors_ == Jpeg2000Colors::kCmyk) {
                inks.resize(kInks * static_cast<std::size_t>(size.width));
            }
            for (int y = 0; y < size.height; ++y) {
                auto* const row = reinterpret_cast<Sample*>(to + row_bytes * static_cast<std::size_t>(y));
                if (colors_ == Jpeg2000Colors::kYcc) {
                    write_ycc_row(y, format.channels, row);
                } else if (colors_ == Jpeg2000Colors::kCmyk) {
                    write_row(y, 0, kInks, inks.data());
                    for (int x = 0; x < size.width; ++x) {
                        cmyk_to_rgb(inks.data() + kInks * x, row + 3 * x);
                    }
                } else {
                    write_row(y, 0, format.channels, row);
                }
            }
        };
        if (format.sample_bytes == 2) {
            write_rows(std::uint16_t{});
        } else {
            write_rows(std::uint8_t{});
        }
    }

  private:
    // Writes the samples of channels from `first` on into pixels of that many `channels`.
    template <typename Sample>
    void write_row(int y, int first, int channels, Sample* to) {
        for (int channel = first; channel < channels; ++channel) {
            const auto index = static_cast<std::size_t>(channel);
            write_samples(image_.comps[index], row_of(index, y), static_cast<std::size_t>(place_.size().width),
                          channels, to + channel);
        }
    }

    template <typename Sample>
    void write_ycc_row(int y, int channels, Sample* to) {
        const auto count = static_cast<std::size_t>(place_.size().width);
        const auto has_bytes = [](const opj_image_comp_t& component) {
            return static_cast<int>(component.prec) == kBits<std::uint8_t>;
        };
        if constexpr (sizeof(Sample) == 1) {
            if (std::all_of(image_.comps, image_.comps + kColors, has_bytes)) {
                write_row(y, 0, channels, to);
                for (std::size_t x = 0; x < count; ++x, to += channels) {
                    const auto [red, green, blue] = color_of_ycc(to[0], to[1], to[2]);
                    to[0] = red;
                    to[1] = green;
                    to[2] = blue;
                }
                return;
            }
        }
        write_ycc(image_.comps, {row_of(0, y), row_of(1, y), row_of(2, y)}, count, channels, to);
        write_row(y, kColors, channels, to);
    }

    // Returns a row of a channel with a sample for each pixel.
    [[nodiscard]] const OPJ_INT32* row_of(std::size_t channel, int y) {
        const opj_image_comp_t& component = image_.comps[channel];
        // Returns where the sample that is shown at a place lies in the component.
        const auto index = [&](int at, OPJ_UINT32 apart, OPJ_UINT32 first, OPJ_UINT32 count) {
            const std::int64_t halved = (std::int64_t{first} + (std::int64_t{1} << halvings_) - 1) >> halvings_;
            return static_cast<std::size_t>(
                std::clamp<std::int64_t>(at / static_cast<int>(apart) - halved, 0, std::int64_t{count} - 1));
        };
        const OPJ_INT32* const row =
            component.data + index(place_.top + y, component.dy, component.y0, component.h) * component.w;
        const Size size = place_.size();
        if (component.dx == 1) {
            return row + index(place_.left, 1, component.x0, component.w);
        }
        std::vector<OPJ_INT32>& repeated = repeated_[channel];
        repeated.resize(static_cast<std::size_t>(size.width));
        for (int x = 0; x < size.width; ++x) {
            repeated[static_cast<std::size_t>(x)] =
                row[index(place_.left + x, component.dx, component.x0, component.w)];
        }
        return repeated.data();
    }

    const opj_image_t& image_;
    Jpeg2000Colors colors_;
    int halvings_;
    Box place_;
    std::array<std::vector<OPJ_INT32>, 4> repeated_;  // For each channel.
};

// OpenJPEG's decoder of one file, which stays in place. Throws MediaErrors.
class OpenjpegCodec : NonCopyable {
  public:
    // Reads the header.
    OpenjpegCodec(Bytes file, bool has_boxes) : source_{file} {
        // Larger reads do not go through its memory.
        constexpr OPJ_SIZE_T kBuffer = 4096;
        stream_.reset(opj_stream_create(kBuffer, OPJ_TRUE));
        codec_.reset(opj_create_decompress(has_boxes ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K));
        require_memory(stream_ && codec_);
        opj_stream_set_user_data(stream_.get(), &source_, nullptr);
        opj_stream_set_user_data_length(stream_.get(), file.size());
        opj_stream_set_read_function(stream_.get(), &read);
        opj_stream_set_skip_function(stream_.get(), &skip);
        opj_stream_set_seek_function(stream_.get(), &seek);
        opj_set_error_handler(codec_.get(), &note, &words_);
        opj_dparameters_t parameters;
        opj_set_default_decoder_parameters(&parameters);
        opj_image_t* image = nullptr;
        const bool good = opj_setup_decoder(codec_.get(), &parameters) == OPJ_TRUE &&
                          opj_read_header(stream_.get(), codec_.get(), &image) == OPJ_TRUE;
        image_.reset(image);
        check(good);
    }

    // Decodes the picture, halved that often, or a part of it on its grid. Once.
    void decode(int halvings, const std::optional<Box>& part) {
        if (halvings != 0) {
            check(opj_set_decoded_resolution_factor(codec_.get(), static_cast<OPJ_UINT32>(halvings)) == OPJ_TRUE);
        }
        const Box area = part.value_or(Box{});
        check(opj_set_decode_area(codec_.get(), image_.get(), area.left, area.top, area.right, area.bottom) ==
              OPJ_TRUE);
        check(opj_decode(codec_.get(), stream_.get(), image_.get()) == OPJ_TRUE);
        if (!part) {
            // It reads what follows the code.
            check(opj_end_decompress(codec_.get(), stream_.get()) == OPJ_TRUE);
        }
    }

    // The picture: before decode() only its header.
    [[nodiscard]] const opj_image_t& image() const { return *image_; }

  private:
    // Throws what OpenJPEG has said first.
    void check(bool good) const {
        if (good) {
            return;
        }
        std::string words(words_.data());
        words.erase(words.find_last_not_of(" .\n") + 1);
        refuse_jpeg2000("OpenJPEG says \"" + words + "\"");
    }

    template <auto kDestroy>
    struct Destroy {
        void operator()(auto* object) const noexcept { kDestroy(object); }
    };
    // The bytes that the stream reads, and its position.
    struct Source {
        Bytes file;
        std::size_t at = 0;
    };

    static OPJ_SIZE_T read(void* to, OPJ_SIZE_T size, void* source) noexcept {
        auto& [file, at] = *static_cast<Source*>(source);
        const std::size_t count = std::min<std::size_t>(size, file.size() - at);
        if (count == 0) {
            return static_cast<OPJ_SIZE_T>(-1);
        }
        std::memcpy(to, file.data() + at, count);
        at += count;
        return count;
    }

    static OPJ_OFF_T skip(OPJ_OFF_T size, void* source) noexcept {
        auto& [file, at] = *static_cast<Source*>(source);
        if (size < 0) {
            return -1;
        }
        at += std::min(static_cast<std::size_t>(size), file.size() - at);
        return size;
    }

    static OPJ_BOOL seek(OPJ_OFF_T at, void* source) noexcept {
        auto& [file, place] = *static_cast<Source*>(source);
        if (at < 0 || static_cast<std::size_t>(at) > file.size()) {
            return OPJ_FALSE;
        }
        place = static_cast<std::size_t>(at);
        return OPJ_TRUE;
    }

    static void note(const char* message, void* words) noexcept {
        auto& first = *static_cast<std::array<char, 200>*>(words);
        if (first[0] == '\0') {
            std::strncpy(first.data(), message, first.size() - 1);
        }
    }

    Source source_;
    std::array<char, 200> words_{};
    std::unique_ptr<opj_stream_t, Destroy<opj_stream_destroy>> stream_;
    std::unique_ptr<opj_codec_t, Destroy<opj_destroy_codec>> codec_;
    std::unique_ptr<opj_image_t, Destroy<opj_image_destroy>> image_;
};

// A part is decoded on its own if it is less than this share of the picture: OpenJPEG transforms all of it faster than
// parts.
constexpr double kLargestPart = 0.7;

// The colours of an ICC profile.
std::string_view colors_of(const opj_image_t& image) {
    constexpr OPJ_UINT32 kColorsPlace = 16;
    constexpr OPJ_UINT32 kLetters = 4;
    if (image.icc_profile_buf == nullptr || image.icc_profile_len < kColorsPlace + kLetters) {
        return {};
    }
    return {reinterpret_cast<const char*>(image.icc_profile_buf) + kColorsPlace, kLetters};
}

bool is_subsampled(const opj_image_t& image) {
    return image.numcomps >= 3 && image.comps[0].dx == 1 && image.comps[0].dy == 1 &&
           (image.comps[1].dx != 1 || image.comps[1].dy != 1);
}

Jpeg2000Colors find_colors(const opj_image_t& image) {
    const std::string_view profile = colors_of(image);
    switch (image.color_space) {
        case OPJ_CLRSPC_SYCC:
        case OPJ_CLRSPC_EYCC:
            return Jpeg2000Colors::kYcc;
        case OPJ_CLRSPC_CMYK:
            return Jpeg2000Colors::kCmyk;
        case OPJ_CLRSPC_GRAY:
        case OPJ_CLRSPC_SRGB:
            return Jpeg2000Colors::kPlain;
        case OPJ_CLRSPC_UNSPECIFIED:
            return is_subsampled(image) ? Jpeg2000Colors::kYcc : Jpeg2000Colors::kPlain;
        default:
            break;
    }
    // OpenJPEG keeps the parameters of CIELab in the place of a profile without a length.
    if (profile == "Lab " || (image.icc_profile_buf != nullptr && image.icc_profile_len == 0)) {
        refuse_jpeg2000("its colours are CIELab, which is not read");
    }
    return profile == "CMYK" ? Jpeg2000Colors::kCmyk : Jpeg2000Colors::kPlain;
}

// Decodes JPEG 2000 by OpenJPEG.
class Jpeg2000Decoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kJpeg2000; }

    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override {
        header_ = read_jpeg2000_header(bytes);
        // Before the library makes its tiles.
        check_source_size(header_.place.size(), "cannot decode the image: its size", max_pixels);
        codec_.emplace(bytes, header_.has_boxes);
        colors_ = find_colors(codec_->image());
        const int least = colors_ == Jpeg2000Colors::kCmyk ? 4 : colors_ == Jpeg2000Colors::kYcc ? 3 : 1;
        if (header_.channels < least) {
            refuse_jpeg2000("it has " + std::to_string(header_.channels) + " channels, too few for its colours");
        }
        const int channels = colors_ == Jpeg2000Colors::kCmyk ? 3 : header_.channels;
        const opj_image_comp_t& first = codec_->image().comps[0];
        const bool halved = header_.halvings >= 3 && header_.place.left == 0 && header_.place.top == 0 &&
                            first.dx == 1 && first.dy == 1;
        return {header_.place.size(), {channels, header_.bits > 8 ? 2 : 1}, "jpeg2000", halved, true};
    }

    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override {
        const Box all = PackedDecoder::decodable(eighths, wanted);
        const auto area = [](Size size) { return static_cast<double>(size.width) * size.height; };
        return area(wanted.size()) < kLargestPart * area(all.size()) ? wanted : all;
    }

    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override {
        const int halvings = std::countr_zero(8U) - std::countr_zero(static_cast<unsigned>(region.eighths));
        // On the grid.
        const Box& picture = header_.place;
        const Box place{(picture.left >> halvings) + region.box.left, (picture.top >> halvings) + region.box.top,
                        (picture.left >> halvings) + region.box.right, (picture.top >> halvings) + region.box.bottom};
        std::optional<Box> part;
        if (region.box != PackedDecoder::decodable(region.eighths, region.box)) {
            // With the samples to the left and above that are shown in a part's first pixels.
            Size apart{1, 1};
            for (OPJ_UINT32 i = 0; i < codec_->image().numcomps; ++i) {
                apart.width = std::max(apart.width, static_cast<int>(codec_->image().comps[i].dx));
                apart.height = std::max(apart.height, static_cast<int>(codec_->image().comps[i].dy));
            }
            part = {std::max((place.left - apart.width + 1) << halvings, picture.left),
                    std::max((place.top - apart.height + 1) << halvings, picture.top),
                    std::min(place.right << halvings, picture.right),
                    std::min(place.bottom << halvings, picture.bottom)};
        }
        codec_->decode(halvings, part);
        const opj_image_t& image = codec_->image();
        const bool empty =
            std::any_of(image.comps, image.comps + image.numcomps, [](const opj_image_comp_t& component) {
                return component.data == nullptr || component.w == 0 || component.h == 0;
            });
        if (empty) {
            refuse_jpeg2000("one of its channels is empty");
        }
        if (image.numcomps != static_cast<OPJ_UINT32>(header_.channels)) {
            refuse_jpeg2000("it has " + std::to_string(image.numcomps) + " channels instead of the " +
                            std::to_string(header_.channels) + " that its header names");
        }
        // A palette describes its channels, and OpenJPEG does not check that.
        constexpr OPJ_UINT32 kMostBits = 32;
        for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
            if (image.comps[i].prec < 1 || image.comps[i].prec > kMostBits) {
                refuse_jpeg2000("channel " + std::to_string(i) + " has samples of " +
                                std::to_string(image.comps[i].prec) + " bits, and 1 to " + std::to_string(kMostBits) +
                                " can be read");
            }
        }
        ComponentRows(image, colors_, halvings, place).write(region.format, to, row_bytes);
    }

    void forget() noexcept override { codec_.reset(); }

  private:
    Jpeg2000Header header_;
    Jpeg2000Colors colors_ = Jpeg2000Colors::kPlain;
    std::optional<OpenjpegCodec> codec_;
};

}  // namespace

extern const Backend openjpeg_backend;
const Backend openjpeg_backend{"openjpeg", "decodes JPEG 2000 only, without FFmpeg's options",
                               make_decoder<Jpeg2000Decoder>};

}  // namespace spdl
