#include "media/packed_decoder.h"

#include <cstddef>

#include "core/limits.h"

namespace spdl {

bool PackedDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                            const DecodeOptions& decode) const noexcept {
    return image.packet == nullptr && !demux.need_ffmpeg() && !decode.need_ffmpeg() && takes(image_format(image.bytes));
}

ImageShape PackedDecoder::open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) {
    try {
        shape_ = describe(image.bytes, decode.max_pixels);
        check_source_size(shape_.size, "cannot decode the image: its size", decode.max_pixels);
    } catch (...) {
        // Nobody closes what was not opened.
        forget();
        throw;
    }
    return {shape_.size, {}, {1, 1}, shape_.scalable, shape_.codec, shape_.format.name(), false, shape_.wavelets};
}

Size PackedDecoder::scaled_size(int eighths) const {
    const auto scaled = [=](int side) { return static_cast<int>((std::int64_t{side} * eighths + 7) / 8); };
    return {scaled(shape_.size.width), scaled(shape_.size.height)};
}

Box PackedDecoder::decodable(int eighths, const Box& /*wanted*/) const {
    return whole(scaled_size(eighths));
}

void PackedDecoder::decode(const Region& region, Place& place) {
    const PackedFormat format{shape_.format.channels, 1};
    const Box box = decodable(region.eighths, region.box);
    const std::size_t row_bytes = format.pixel_bytes() * static_cast<std::size_t>(box.size().width);
    pixels_.reserve(row_bytes * static_cast<std::size_t>(box.size().height));
    decode_packed({region.eighths, box, format}, pixels_.data(), row_bytes);
    const Size size = region.box.size();
    RowSink& sink = place.begin({size.width, 0});
    const std::uint8_t* row = pixels_.data() + row_bytes * static_cast<std::size_t>(region.box.top - box.top);
    for (int y = 0; y < size.height; ++y, row += row_bytes) {
        write_packed_pixels(format, row, region.box.left - box.left, size.width, region.channels, sink.row(y));
        sink.commit(y, 1);
    }
}

void PackedDecoder::decode_whole(std::uint8_t* to, std::size_t row_bytes) {
    decode_packed({8, whole(shape_.size), shape_.format}, to, row_bytes);
}

void PackedDecoder::close() noexcept {
    forget();
    if (pixels_.size() > kKeptBytes) {
        pixels_ = AlignedBuffer();
    }
}

}  // namespace spdl
