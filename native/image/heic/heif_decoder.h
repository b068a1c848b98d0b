#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "core/image_items.h"
#include "image/heic/sample_rows.h"
#include "media/decoder.h"
#include "media/place.h"

namespace spdl {

// Throws MediaError if what a file says about its items cannot be so: damage is found there before it shows.
void check_properties(std::span<const FileBox> properties);

// The longest chain of items that are made from each other.
inline constexpr std::size_t kMostNested = 8;

// The shown part of an item's stored picture, and its rotation.
struct ItemView {
    Box part;
    Orientation orientation;
};

// Returns the view of a picture after the turns, mirrors and crops of an item, in their order. Throws MediaError if a
// crop leaves nothing.
ItemView apply_view(ItemView view, std::span<const ItemProperty> properties);

// Returns how the picture of such a file is turned.
Orientation heif_orientation(Bytes heif);

// A picture that is made of tiles of one size, row by row; often of one.
struct TiledPicture {
    std::vector<std::uint32_t> tiles;
    int columns = 1;
    Size tile;
    SampleLayout layout;
    std::optional<SampleColors> colors;  // As the file says.
    ItemView view;                       // Its part is one of all tiles together.
};

struct HeifPicture {
    TiledPicture image;
    std::optional<TiledPicture> alpha;
    bool premultiplied = false;
};

// Finds the picture of a file and what it is made of. Throws MediaError if it is damaged, made in a way that is not
// read, or of parts that are too large for a picture of `max_pixels`.
HeifPicture find_heif_picture(const ImageItems& items, std::int64_t max_pixels);

// Returns the content of a property of an item; empty if none exists of that name.
Bytes find_property(std::span<const ItemProperty> properties, std::string_view name);

// Decodes HEIF, whose pictures in HEVC are decoded by another.
class HeifDecoder final : public PackedDecoder {
  public:
    explicit HeifDecoder(std::unique_ptr<PictureDecoder> pictures) : pictures_(std::move(pictures)) {}

  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kHeif; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    // Rows of packed pixels, which begin `row_bytes` apart.
    struct Rows {
        std::uint8_t* begin;
        std::size_t row_bytes;
    };

    // Decodes the tiles that have pixels in a part of a picture. Alpha has no colours.
    void decode_tiles(const TiledPicture& picture, const Box& part, bool is_alpha, const PackedFormat& format,
                      const Rows& to);
    CodedPicture decode_tile(const TiledPicture& picture, std::size_t index);
    void add_alpha(const PackedRegion& region, const Rows& to);

    std::unique_ptr<PictureDecoder> pictures_;
    std::optional<ImageItems> items_;
    HeifPicture picture_;
};

}  // namespace spdl
