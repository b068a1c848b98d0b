#include "image/jpeg2000/jpeg2000_decoder.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

namespace spdl {
namespace {

// A part is decoded on its own if it is less than this share of the picture: OpenJPEG transforms all of it faster than
// parts.
constexpr double kLargestPart = 0.7;

// The colours of an ICC profile.
std::string_view colors_of(const opj_image_t& image) {
    constexpr OPJ_UINT32 kColors = 16;
    constexpr OPJ_UINT32 kLetters = 4;
    if (image.icc_profile_buf == nullptr || image.icc_profile_len < kColors + kLetters) {
        return {};
    }
    return {reinterpret_cast<const char*>(image.icc_profile_buf) + kColors, kLetters};
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

}  // namespace

PackedShape Jpeg2000Decoder::describe(Bytes bytes, std::int64_t max_pixels) {
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
    const bool halved =
        header_.halvings >= 3 && header_.place.left == 0 && header_.place.top == 0 && first.dx == 1 && first.dy == 1;
    return {header_.place.size(), {channels, header_.bits > 8 ? 2 : 1}, "jpeg2000", halved, true};
}

Box Jpeg2000Decoder::decodable(int eighths, const Box& wanted) const {
    const Box all = PackedDecoder::decodable(eighths, wanted);
    const auto area = [](Size size) { return static_cast<double>(size.width) * size.height; };
    return area(wanted.size()) < kLargestPart * area(all.size()) ? wanted : all;
}

void Jpeg2000Decoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
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
                std::min(place.right << halvings, picture.right), std::min(place.bottom << halvings, picture.bottom)};
    }
    codec_->decode(halvings, part);
    const opj_image_t& image = codec_->image();
    const bool empty = std::any_of(image.comps, image.comps + image.numcomps, [](const opj_image_comp_t& component) {
        return component.data == nullptr || component.w == 0 || component.h == 0;
    });
    if (empty) {
        refuse_jpeg2000("one of its channels is empty");
    }
    if (image.numcomps != static_cast<OPJ_UINT32>(header_.channels)) {
        refuse_jpeg2000("it has " + std::to_string(image.numcomps) + " channels instead of the " +
                        std::to_string(header_.channels) + " that its header names");
    }
    // A palette says of its channels what OpenJPEG takes as it is.
    constexpr OPJ_UINT32 kMostBits = 32;
    for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
        if (image.comps[i].prec < 1 || image.comps[i].prec > kMostBits) {
            refuse_jpeg2000("channel " + std::to_string(i) + " has samples of " + std::to_string(image.comps[i].prec) +
                            " bits, and 1 to " + std::to_string(kMostBits) + " can be read");
        }
    }
    ComponentRows(image, colors_, halvings, place).write(region.format, to, row_bytes);
}

}  // namespace spdl
