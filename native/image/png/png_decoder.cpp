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
#include "image/png/png_passes.h"
#include "image/png/png_pixels.h"
#include "image/png/unfilter.h"
#include "media/image_format.h"

namespace spdl {
namespace {

// The most bytes that deflate makes of one.
constexpr std::size_t kMaxRatio = 1032;

void check_filter(std::uint8_t filter, int y) {
    if (filter >= kPngFilters) {
        refuse_png("row " + std::to_string(y) + " has the filter " + std::to_string(filter) + ", which does not exist");
    }
}

}  // namespace

bool PngDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                         const DecodeOptions& decode) const noexcept {
    return image.packet == nullptr && !demux.need_ffmpeg() && !decode.need_ffmpeg() &&
           image_format(image.bytes) == ImageFormat::kPng;
}

ImageShape PngDecoder::open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) {
    header_ = read_png_header(image.bytes);
    check_source_size(header_.size, "cannot decode the image: its size", decode.max_pixels);
    bytes_ = image.bytes;
    return {header_.size, {}, {1, 1}, false, "png", header_.packed().name()};
}

void PngDecoder::close() noexcept {
    bytes_ = {};
    if (rows_.size() > kKeptBytes) {
        rows_ = AlignedBuffer();
    }
    if (whole_.size() > kKeptBytes) {
        whole_ = AlignedBuffer();
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
    const std::size_t zeros = header_.row_bytes(header_.size.width);
    std::size_t room = size;
    std::size_t made = 0;
    libdeflate_result result = LIBDEFLATE_INSUFFICIENT_SPACE;
    while (true) {
        rows_.reserve(zeros + room + kUnfilterSlack);
        std::size_t used = 0;
        result = libdeflate_zlib_decompress_ex(decompressor(), from.data(), from.size(), rows_.data() + zeros, room,
                                               &used, &made);
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
    std::memset(rows_.data(), 0, zeros);
}

std::size_t PngDecoder::inflated_bytes(Size size) const {
    return (header_.row_bytes(size.width) + 1) * static_cast<std::size_t>(size.height);
}

template <typename Use>
std::uint8_t* PngDecoder::unfilter_rows(std::uint8_t* row, int width, int bottom, const Use& use) {
    const std::size_t bytes = header_.row_bytes(width);
    const std::size_t step = std::max<std::size_t>(1, static_cast<std::size_t>(header_.pixel_bits()) / 8);
    const std::uint8_t* above = rows_.data();
    for (int y = 0; y < bottom; ++y) {
        const std::uint8_t filter = *row++;
        check_filter(filter, y);
        unfilter(filter, row, above, bytes, step);
        use(y, row);
        above = row;
        row += bytes;
    }
    return row;
}

template <typename Use>
void PngDecoder::decode_rows(int bottom, const Use& use) {
    const std::size_t bytes = header_.row_bytes(header_.size.width);
    if (!header_.interlaced) {
        inflate(inflated_bytes(header_.size));
        const std::uint8_t* row = unfilter_rows(rows_.data() + bytes, header_.size.width, bottom, use);
        for (int y = bottom; y < header_.size.height; ++y, row += bytes + 1) {
            check_filter(*row, y);
        }
        return;
    }
    join_passes();
    const std::uint8_t* row = whole_.data();
    for (int y = 0; y < bottom; ++y, row += bytes) {
        use(y, row);
    }
}

void PngDecoder::join_passes() {
    const std::array passes = png_passes(header_.size);
    std::size_t inflated = 0;
    for (const PngPass& pass : passes) {
        inflated += pass.size.width == 0 ? 0 : inflated_bytes(pass.size);
    }
    inflate(inflated);
    const std::size_t bytes = header_.row_bytes(header_.size.width);
    const std::size_t size = bytes * static_cast<std::size_t>(header_.size.height);
    whole_.reserve(size);
    if (header_.pixel_bits() < 8) {
        std::memset(whole_.data(), 0, size);
    }
    std::uint8_t* from = rows_.data() + bytes;
    for (const PngPass& pass : passes) {
        from = unfilter_rows(from, pass.size.width, pass.size.height, [&](int y, const std::uint8_t* row) {
            spread_png_row(pass, row, header_.pixel_bits(),
                           whole_.data() + bytes * static_cast<std::size_t>(pass.top + y * pass.down));
        });
    }
}

void PngDecoder::decode(const Region& region, Place& place) {
    const Box& box = region.box;
    RowSink& sink = place.begin({box.size().width, 0});
    decode_rows(box.bottom, [&](int y, const std::uint8_t* row) {
        if (y >= box.top) {
            write_png_pixels(header_, row, box.left, box.size().width, region.channels, sink.row(y - box.top));
            sink.commit(y - box.top, 1);
        }
    });
}

void PngDecoder::decode_whole(std::uint8_t* to, std::size_t row_bytes) {
    decode_rows(header_.size.height, [&](int y, const std::uint8_t* row) {
        write_packed_png(header_, row, to + row_bytes * static_cast<std::size_t>(y));
    });
}

}  // namespace spdl
