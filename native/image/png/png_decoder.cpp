#include "image/png/png_decoder.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "core/decompressor.h"
#include "core/limits.h"
#include "core/media_error.h"
#include "core/png_chunk.h"
#include "image/png/png_pixels.h"
#include "image/png/unfilter.h"

namespace spdl {
namespace {

// The most bytes that deflate makes of one.
constexpr std::size_t kMaxRatio = 1032;

}  // namespace

bool PngDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                         const DecodeOptions& decode) const noexcept {
    return image.packet == nullptr && !demux.need_ffmpeg() && !decode.need_ffmpeg() && is_plain_png(image.bytes);
}

ImageShape PngDecoder::open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) {
    header_ = read_png_header(image.bytes);
    check_source_size(header_.size, "cannot decode the image: its size", decode.max_pixels);
    bytes_ = image.bytes;
    return {header_.size, {}, {1, 1}, false, "png", header_.pixel_format()};
}

void PngDecoder::close() noexcept {
    bytes_ = {};
    if (rows_.size() > kKeptBytes) {
        rows_ = AlignedBuffer();
    }
    if (joined_.capacity() > kKeptBytes) {
        joined_ = {};
    }
}

Bytes PngDecoder::compressed() {
    joined_.clear();
    std::optional<PngChunk> chunk = read_png_chunk(bytes_, header_.pixels);
    const Bytes first = chunk->data;
    bool several = false;
    while (true) {
        check_png_chunk(*chunk);
        chunk = read_png_chunk(bytes_, chunk->end);
        if (!chunk || chunk->type != "IDAT") {
            cut_ = !chunk;
            return several ? Bytes(joined_) : first;
        }
        if (!several) {
            joined_.assign(first.begin(), first.end());
            several = true;
        }
        joined_.insert(joined_.end(), chunk->data.begin(), chunk->data.end());
    }
}

void PngDecoder::refuse(const std::string& reason) const {
    if (cut_) {
        throw MediaError("cannot decode the PNG: the data is truncated: its " + std::to_string(bytes_.size()) +
                         " bytes end before its picture does");
    }
    refuse_png(reason);
}

void PngDecoder::inflate(std::size_t size) {
    const Bytes from = compressed();
    if (size / kMaxRatio > from.size()) {
        refuse("its " + std::to_string(from.size()) + " compressed bytes cannot hold its picture");
    }
    std::size_t room = size;
    std::size_t made = 0;
    libdeflate_result result = LIBDEFLATE_INSUFFICIENT_SPACE;
    while (true) {
        rows_.reserve(header_.row_bytes() + room + kUnfilterSlack);
        std::size_t used = 0;
        result = libdeflate_zlib_decompress_ex(decompressor(), from.data(), from.size(),
                                               rows_.data() + header_.row_bytes(), room, &used, &made);
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE || room >= size + kMaxMetadata) {
            break;
        }
        // Whatever follows the pixels is ignored, as it is in Pillow.
        room = std::min(2 * room + kLargeBlock, size + kMaxMetadata);
    }
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
        refuse_png("it has many more pixels than it says");
    }
    if (result != LIBDEFLATE_SUCCESS) {
        refuse("its pixels cannot be inflated");
    }
    if (made < size) {
        refuse("it has fewer pixels than it says");
    }
}

void PngDecoder::decode(const Region& region, Place& place) {
    const std::size_t width = header_.row_bytes();
    inflate((width + 1) * static_cast<std::size_t>(header_.size.height));
    const std::size_t step = std::max<std::size_t>(1, static_cast<std::size_t>(header_.pixel_bits()) / 8);
    const Box& box = region.box;
    RowSink& sink = place.begin({box.size().width, 0});
    std::uint8_t* above = rows_.data();
    std::memset(above, 0, width);
    std::uint8_t* row = above + width + 1;
    for (int y = 0; y < box.bottom; ++y, above = row, row += width + 1) {
        const std::uint8_t filter = row[-1];
        if (filter >= kPngFilters) {
            refuse_png("row " + std::to_string(y) + " has the filter " + std::to_string(filter) +
                       ", which does not exist");
        }
        unfilter(filter, row, above, width, step);
        if (y >= box.top) {
            write_png_pixels(header_, row, box.left, box.size().width, region.channels, sink.row(y - box.top));
            sink.commit(y - box.top, 1);
        }
    }
}

}  // namespace spdl
