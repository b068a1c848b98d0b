#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/files.h"
#include "core/non_copyable.h"
#include "image/augment/pixel_steps.h"
#include "image/load/batch.h"
#include "image/plan/image_plan.h"
#include "image/planes/yuv_resizer.h"
#include "image/resize/resizer.h"
#include "media/decoder.h"
#include "media/image_format.h"
#include "media/options.h"
#include "media/packet.h"

namespace spdl {

// Everything that one thread needs to read, decode and resize images. It is kept, so the next image allocates nothing.
struct ThreadScratch {
    FileReader file;
    DecoderSet decoders;
    Resizer resizer;
    PlaneResizer plane_resizer;
    AlignedBuffer pixels;   // Of an image whose colours change on the way to its place.
    AlignedBuffer decoded;  // Of an image with several views.
    PixelScratch steps;
    YuvResizer yuv_resizer;
};

ThreadScratch& thread_scratch();

// Returns the bytes of an input: from its file in the thread's buffer, or in place.
inline Bytes read_input(const ImageInput& input, ThreadScratch& scratch) {
    return input.path.data() == nullptr ? input.bytes : scratch.file.read(input.path);
}

// Resizes rows of packed pixels that are in memory, after Resizer::prepare(). `row_at(y)` returns the place of a row.
template <typename RowAt>
void feed_rows(Resizer& resizer, Size size, const Canvas& canvas, const Target& target, const RowAt& row_at) {
    RowSink& sink = resizer.begin({size.width, 0}, canvas, target);
    for (int y = 0; y < size.height; y += RowSink::kMaxRows) {
        const int count = std::min(RowSink::kMaxRows, size.height - y);
        for (int row = y; row < y + count; ++row) {
            std::memcpy(sink.row(row), row_at(row), rgb_bytes(size.width));
        }
        sink.commit(y, count);
    }
}

// An image that one of the thread's decoders has opened. A thread has only one at a time.
class OpenImage : NonCopyable {
  public:
    // The image is turned upright if that is asked for. Throws MediaError, also if it does not have the ids that are
    // asked for.
    OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
              ThreadScratch& scratch);
    ~OpenImage() { choice_.decoder.close(); }

    [[nodiscard]] const ImageShape& shape() const { return shape_; }
    [[nodiscard]] const Backend& backend() const { return choice_.backend; }
    [[nodiscard]] Decoder& decoder() const { return choice_.decoder; }

  private:
    // As it is stored.
    OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
              ThreadScratch& scratch);

    DecoderSet::Choice choice_;
    ImageShape shape_;
};

// Decodes and resizes the open image of `decoder` into a separate frame, in the pixel format of the options and without
// gaps between rows. Throws MediaError.
std::unique_ptr<Frame> resized_frame(Decoder& decoder, const ImageShape& shape, const LoadOptions& options,
                                     FrameMaker make_frame, ThreadScratch& scratch);

// Resizes packed pixels in memory, without a decoder. Benchmarks compare it with the resize of other libraries.
void resize_pixels(Bytes pixels, Size size, const LoadOptions& options, std::uint8_t* to);

// One image is demuxed and decoded step by step.

// Finds the image in its bytes, which `owner` keeps in place. Throws MediaError.
std::shared_ptr<const Packet> demux_image(std::shared_ptr<const void> owner, const EncodedImage& image,
                                          const DemuxOptions& options);

// Decodes the image to a frame in one of our pixel formats, as bytes. Throws MediaError.
DecodedImage decode_resized(const Packet& packet, const LoadOptions& options, const DecodeOptions& decode,
                            FrameMaker make_frame);

// Decodes the image to a frame in the pixel format that it is stored in, if a backend that the options allow does so by
// itself; the frame is null otherwise. With `make_rgb`, JPEGs whose planes FFmpeg would decode become RGB. Throws
// MediaError.
DecodedImage decode_whole(const Packet& packet, const DecodeOptions& decode, StoredFrameMaker make_frame,
                          FrameMaker make_rgb = nullptr);

// Decodes and resizes the open image of `decoder` into the canvas at `to`, and pads what it does not cover.
void write_image(Decoder& decoder, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch);

// The ids that a batch has room for.
struct IdRange {
    std::int64_t least;
    std::int64_t most;
};

IdRange ids_of(const ArrayFormat& format);

// Throws MediaError if the ids of a file may be others. What they may be decides, not what they are: so batches do not
// differ.
void check_bits(const StoredIds& ids, const ArrayFormat& format);

// Delivers an array as if it had been decoded.
class IdArrayDecoder final : public Decoder {
  public:
    // Refuses other ids.
    IdArrayDecoder(const IdArray& array, const IdRange& accepted) : array_(array), accepted_(accepted) {}

    [[nodiscard]] bool accepts(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                               const DecodeOptions& /*decode*/) const noexcept override {
        return false;
    }
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) override;

  private:
    template <typename Id>
    void decode_as(const Box& box, RowSink& sink) const;

    const IdArray& array_;
    IdRange accepted_;
};

// Returns the thread's memory for the packed pixels of an image whose pixels change.
std::uint8_t* reserve_pixels(Size size, ThreadScratch& scratch);

// Changes these pixels as is said for an image of the batch, and writes them to its place in the array's format.
// Where they are moved, they are blended unless the resize takes the nearest.
void write_varied(std::uint8_t* pixels, Size size, const LoadOptions& options, const CropsAndFlips& changes,
                  std::size_t image, std::uint8_t* to, ThreadScratch& scratch);

}  // namespace spdl
