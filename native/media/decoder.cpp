#include "media/decoder.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/errors.h"
#include "core/geometry.h"

namespace spdl {
namespace {

// Never destroyed: threads may outlive the process's static objects.
std::vector<const Backend*>& registry() {
    static std::vector<const Backend*>* const all = new std::vector<const Backend*>;
    return *all;
}

}  // namespace

void register_backend(const Backend& backend) {
    if (std::ranges::find(registry(), &backend) == registry().end()) {
        registry().push_back(&backend);
    }
}

std::span<const Backend* const> backends() noexcept {
    return registry();
}

const Backend* find_backend(std::string_view name) noexcept {
    const auto found = std::ranges::find(registry(), name, &Backend::name);
    return found == registry().end() ? nullptr : *found;
}

void refuse(const Backend& backend) {
    throw MediaError(std::string(backend.name) + " " + backend.scope + ", but was asked for");
}

namespace {

constexpr Rational kImageTimeBase{1, 25};  // The unit of FFmpeg's image demuxers.

}  // namespace

std::optional<ImageShape> Decoder::transform(const ImageShape& /*shape*/, const LoadOptions& /*options*/,
                                             const CropAndFlip& /*crop*/) {
    return std::nullopt;
}

void Decoder::decode_planes(const PlaneRegion& /*region*/, PlanePlace& /*place*/) {
    throw std::logic_error("this decoder has no planes");
}

void Decoder::decode_whole(std::uint8_t* /*to*/, std::size_t /*row_bytes*/) {
    throw std::logic_error("this decoder has no packed pixels");
}

FrameProperties Decoder::properties() const {
    return {0, kImageTimeBase, {}};
}

std::shared_ptr<const Packet> Decoder::demux(std::shared_ptr<const void> owner, const EncodedImage& image,
                                             const DemuxOptions& options) {
    // Nothing is allocated for the size that the image claims; one that is too large is refused when it is decoded.
    DecodeOptions any_size;
    any_size.max_pixels = std::numeric_limits<std::int64_t>::max();
    const ImageShape shape = open(image, options, any_size);
    close();
    return std::make_shared<const KeptPacket>(
        std::move(owner), image, CodecInfo{shape.codec, shape.stored, shape.pixel_format, kImageTimeBase, {0, 1}});
}

DecoderSet::DecoderSet() {
    decoders_.reserve(backends().size());
    for (const Backend* const backend : backends()) {
        decoders_.push_back(backend->make_decoder());
    }
}

DecoderSet::Choice DecoderSet::choose(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                                      MemoryKind memory) {
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
        const Backend* const backend = backends()[i];
        Decoder& decoder = *decoders_[i];
        if ((decode.backend == nullptr || decode.backend == backend) && decoder.output() == memory &&
            decoder.accepts(image, demux, decode)) {
            return {*backend, decoder};
        }
    }
    if (image.page) {
        throw MediaError("only libtiff reads the pages of a TIFF, without FFmpeg's options: leave out the others");
    }
    if (decode.backend != nullptr) {
        refuse(*decode.backend);
    }
    throw MediaError("cannot read the image: " + describe_unknown_format(image.bytes));
}

bool PackedDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                            const DecodeOptions& decode) const noexcept {
    return image.packet == nullptr && !demux.need_ffmpeg() && !decode.need_ffmpeg() && takes(image_format(image.bytes));
}

ImageShape PackedDecoder::open(const EncodedImage& image, const DemuxOptions& /*demux*/, const DecodeOptions& decode) {
    try {
        shape_ = describe(image.bytes, decode.max_pixels);
        check_source_size(shape_.size, "cannot decode the image: its size", decode.max_pixels);
        ids_ = decode.ids == IdSource::kNone ? StoredIds() : show_ids();
    } catch (...) {
        // Nobody closes what was not opened.
        forget();
        throw;
    }
    return {.stored = shape_.size,
            .orientation = {},
            .scalable = shape_.scalable,
            .codec = shape_.codec,
            .pixel_format = shape_.format.name(),
            .wavelets = shape_.wavelets,
            .ids = ids_,
            .more_pages = shape_.more_pages};
}

Size PackedDecoder::scaled_size(int eighths) const {
    const auto scaled = [=](int side) { return static_cast<int>((std::int64_t{side} * eighths + 7) / 8); };
    return {scaled(shape_.size.width), scaled(shape_.size.height)};
}

Box PackedDecoder::decodable(int eighths, const Box& /*wanted*/) const {
    return whole(scaled_size(eighths));
}

void PackedDecoder::decode(const Region& region, Place& place) {
    const bool as_ids = ids_.kind != StoredIds::Kind::kNone;
    const PackedFormat format =
        as_ids ? PackedFormat{1, ids_.bits > 8 ? 2 : 1} : PackedFormat{shape_.format.channels, 1};
    const Box box = decodable(region.eighths, region.box);
    const std::size_t row_bytes = format.pixel_bytes() * static_cast<std::size_t>(box.size().width);
    pixels_.reserve(row_bytes * static_cast<std::size_t>(box.size().height));
    decode_packed({region.eighths, box, format}, pixels_.data(), row_bytes);
    const Size size = region.box.size();
    RowSink& sink = place.begin({size.width, 0});
    const std::uint8_t* row = pixels_.data() + row_bytes * static_cast<std::size_t>(region.box.top - box.top);
    for (int y = 0; y < size.height; ++y, row += row_bytes) {
        const int left = region.box.left - box.left;
        if (as_ids) {
            write_packed_ids(format.sample_bytes, row, left, size.width, sink.row(y));
        } else {
            write_packed_pixels(format, row, left, size.width, region.channels, sink.row(y));
        }
        sink.commit(y, 1);
    }
}

void PackedDecoder::decode_whole(std::uint8_t* to, std::size_t row_bytes) {
    decode_packed({8, whole(shape_.size), shape_.format}, to, row_bytes);
}

void PackedDecoder::close() noexcept {
    forget();
    pixels_.shrink();
}

}  // namespace spdl
