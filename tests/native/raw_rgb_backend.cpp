// A backend for a format of the tests' own: the characters "rawrgb", width and height in four bytes each,
// little-endian, and three bytes for each pixel. The package knows nothing of it: the file and a line in load_batch.cpp
// are all it takes.

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/bytes.h"
#include "core/errors.h"
#include "media/decoder.h"

namespace spdl {
namespace {

constexpr char kMagic[] = {'r', 'a', 'w', 'r', 'g', 'b'};
constexpr std::size_t kHeader = sizeof(kMagic) + 8;

class RawRgbDecoder final : public Decoder {
  public:
    bool accepts(const EncodedImage& image, const DemuxOptions& /*demux*/,
                 const DecodeOptions& /*decode*/) const noexcept override {
        return image.bytes.size() >= sizeof(kMagic) && std::memcmp(image.bytes.data(), kMagic, sizeof(kMagic)) == 0;
    }

    MemoryKind output() const noexcept override { return MemoryKind::kHost; }

    ImageShape open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) override {
        if (image.bytes.size() < kHeader) {
            throw MediaError("cannot decode the raw image: its header is truncated");
        }
        const auto side = [&](std::size_t at) {
            return static_cast<int>(std::min(load_le<std::uint32_t>(image.bytes.data() + at), 0x7fffffffU));
        };
        size_ = {side(sizeof(kMagic)), side(sizeof(kMagic) + 4)};
        check_source_size(size_, "cannot decode the raw image: its size", decode.max_pixels);
        pixels_ = image.bytes.subspan(kHeader);
        truncated_ = pixels_.size() < rgb_bytes(size_);
        if (truncated_ && !decode.keep_damaged) {
            throw MediaError("cannot decode the raw image: the data is truncated");
        }
        return {size_, {}, {1, 1}, false, "rawrgb", "rgb24"};
    }

    void decode(const Region& region, Place& place) override {
        const std::size_t columns = static_cast<std::size_t>(region.box.size().width);
        RowSink& sink = place.begin({region.box.size().width, 0});
        for (int y = 0; y < region.box.size().height; ++y) {
            std::uint8_t* const row = sink.row(y);
            for (std::size_t x = 0; x < columns; ++x) {
                write_pixel(region, x, y, row + 3 * x);
            }
            sink.commit(y, 1);
        }
    }

    std::string damage() const override { return truncated_ ? "the data is truncated" : ""; }

  private:
    // Black where there is no data.
    void write_pixel(const Region& region, std::size_t x, int y, std::uint8_t* to) const {
        const std::size_t at =
            rgb_bytes({size_.width, region.box.top + y}) + 3 * (static_cast<std::size_t>(region.box.left) + x);
        std::uint8_t rgb[3]{};
        if (at + 3 <= pixels_.size()) {
            std::copy_n(pixels_.data() + at, 3, rgb);
        }
        if (region.channels == Channels::kBgr) {
            std::swap(rgb[0], rgb[2]);
        } else if (region.channels == Channels::kGray) {
            std::fill_n(rgb, 3, static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000));
        }
        std::copy_n(rgb, 3, to);
    }

    Size size_;
    Bytes pixels_;
    bool truncated_ = false;
};

}  // namespace

extern const Backend raw_rgb_backend;
const Backend raw_rgb_backend{"raw-rgb", "decodes its own format only",
                              []() -> std::unique_ptr<Decoder> { return std::make_unique<RawRgbDecoder>(); }};

}  // namespace spdl
