#include "image/load/one_image.h"

#include <mutex>
#include <thread>
#include <utility>

#include "image/augment/draws.h"
#include "image/jpeg/jpeg.h"
#include "image/orientation/exif_orientation.h"
#include "image/resize/kernels.h"
#include "image/write/pixel_writers.h"
#include "media/place.h"

namespace spdl {
namespace {

// The scratch of threads that have ended, for threads that begin. Some threads live for one batch only.
class ScratchPool {
  public:
    std::unique_ptr<ThreadScratch> take() {
        // This does not wait for the lock: in a forked child it might never be unlocked.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || left_.empty()) {
            return std::make_unique<ThreadScratch>();
        }
        std::unique_ptr<ThreadScratch> scratch = std::move(left_.back());
        left_.pop_back();
        return scratch;
    }

    void leave(std::unique_ptr<ThreadScratch> scratch) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock && left_.size() < left_.capacity()) {
            left_.push_back(std::move(scratch));
        }
    }

    ScratchPool() { left_.reserve(std::max(std::thread::hardware_concurrency(), 1U)); }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<ThreadScratch>> left_;
};

// Never destroyed: threads may outlive the process's static objects.
ScratchPool& scratch_pool() {
    static ScratchPool* const pool = new ScratchPool;
    return *pool;
}

class BorrowedScratch : NonCopyable {
  public:
    BorrowedScratch() : scratch_(scratch_pool().take()) {}
    ~BorrowedScratch() { scratch_pool().leave(std::move(scratch_)); }

    [[nodiscard]] ThreadScratch& get() const { return *scratch_; }

  private:
    std::unique_ptr<ThreadScratch> scratch_;
};

}  // namespace

ThreadScratch& thread_scratch() {
    thread_local const BorrowedScratch scratch;
    return scratch.get();
}

namespace {

// Throws the MediaError for an image that does not have the ids that are asked for.
void check_ids(const ImageShape& shape, IdSource wanted) {
    constexpr int kWide = 16;
    using Kind = StoredIds::Kind;
    const auto [kind, bits] = shape.ids;
    const bool indices = kind == Kind::kIndices;
    const bool levels = kind == Kind::kLevels;
    std::string is = "this is " + std::string(shape.codec);
    is += indices  ? " with a palette"
          : levels ? " with " + std::to_string(bits) + "-bit gray"
                   : " (" + std::string(shape.pixel_format) + ")";
    if (wanted == IdSource::kIndex && !indices) {
        throw MediaError("pix_fmt='index' takes a PNG, GIF, BMP or TIFF with a palette, and " + is +
                         (levels && bits == kWide ? ": pix_fmt='gray16' gives its levels"
                          : levels                ? ": pix_fmt='gray' gives its levels"
                                                  : ": 'rgb24' and 'gray' give its colours"));
    }
    if (wanted == IdSource::kGray16 && !(levels && bits == kWide)) {
        throw MediaError("pix_fmt='gray16' takes a PNG, TIFF or PGM with 16-bit gray, and " + is +
                         (indices  ? ": pix_fmt='index' gives its indices"
                          : levels ? ": pix_fmt='gray' gives its levels"
                                   : ": 'rgb24' and 'gray' give its colours"));
    }
    if (wanted == IdSource::kAny && !(indices || levels)) {
        throw MediaError(
            "ids are read from a palette or from gray without alpha, in a PNG, GIF, BMP, TIFF or PGM, and " + is +
            ": save the number of each pixel, as gray or with a palette, in a format without losses");
    }
}

}  // namespace

OpenImage::OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                     ThreadScratch& scratch)
    : choice_(scratch.decoders.choose(image, demux, decode)) {
    if (&choice_.backend != &libjpeg_turbo_backend) {
        check_jpeg(image.bytes, decode.max_pixels);
    }
    shape_ = choice_.decoder.open(image, demux, decode);
}

// From here on, the image is closed even if its metadata are damaged.
OpenImage::OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
                     ThreadScratch& scratch)
    : OpenImage(image, demux, decode, scratch) {
    if (upright) {
        shape_.orientation = exif_orientation(image.bytes, image.page);
    }
    check_ids(shape_, decode.ids);
}

std::unique_ptr<Frame> resized_frame(Decoder& decoder, const ImageShape& shape, const LoadOptions& options,
                                     FrameMaker make_frame, ThreadScratch& scratch) {
    const ImagePlan plan = plan_image(shape, options, {whole(shape.upright()), false});
    std::unique_ptr<Frame> frame = make_frame(plan.canvas, options.format);
    write_image(decoder, plan, options.format, frame->pixels(), scratch);
    frame->set_properties(decoder.properties());
    return frame;
}

void resize_pixels(Bytes pixels, Size size, const LoadOptions& options, std::uint8_t* to) {
    const ImagePlan plan = plan_image({size, {}, {1, 1}, false}, options, {whole(size), false});
    Resizer& resizer = thread_scratch().resizer;
    const Box needed = resizer.prepare(plan.resampling);
    feed_rows(resizer, needed.size(), {to, plan.canvas, &options.format}, plan.target, [&](int row) {
        return pixels.data() + static_cast<std::size_t>(needed.top + row) * rgb_bytes(size.width) +
               rgb_bytes(needed.left);
    });
}

std::shared_ptr<const Packet> demux_image(std::shared_ptr<const void> owner, const EncodedImage& image,
                                          const DemuxOptions& options) {
    Decoder& decoder = thread_scratch().decoders.choose(image, options, {}).decoder;
    return decoder.demux(std::move(owner), image, options);
}

DecodedImage decode_resized(const Packet& packet, const LoadOptions& options, const DecodeOptions& decode,
                            FrameMaker make_frame) {
    ThreadScratch& scratch = thread_scratch();
    const OpenImage image(packet.image(), {}, decode, false, scratch);
    return {resized_frame(image.decoder(), image.shape(), options, make_frame, scratch), &image.backend(),
            image.shape().more_pages};
}

DecodedImage decode_whole(const Packet& packet, const DecodeOptions& decode, StoredFrameMaker make_frame,
                          FrameMaker make_rgb) {
    const EncodedImage encoded = packet.image();
    const auto [backend, decoder] = thread_scratch().decoders.choose(encoded, {}, decode);
    if (!decoder.packs(encoded)) {
        const bool ours = make_rgb != nullptr && &backend == &libjpeg_turbo_backend;
        return ours ? decode_resized(packet, {}, decode, make_rgb) : DecodedImage{};
    }
    const OpenImage image(encoded, {}, decode, false, thread_scratch());
    std::unique_ptr<Frame> frame = make_frame(image.shape().stored, image.shape().pixel_format);
    image.decoder().decode_whole(frame->pixels(), static_cast<std::size_t>(frame->picture().row_distances[0]));
    frame->set_properties(image.decoder().properties());
    return {std::move(frame), &image.backend(), image.shape().more_pages};
}

namespace {

// A canvas that is written to through the resize.
class CanvasPlace final : public Place {
  public:
    CanvasPlace(Resizer& resizer, const Canvas& canvas, const Target& target)
        : resizer_(resizer), canvas_(canvas), target_(target) {}

    RowSink& begin(const DecodedRows& rows) override { return resizer_.begin(rows, canvas_, target_); }

  private:
    Resizer& resizer_;
    const Canvas& canvas_;
    const Target& target_;
};

// A canvas that is written to out of planes.
class PlanarCanvasPlace final : public PlanePlace {
  public:
    PlanarCanvasPlace(PlaneResizer& resizer, const Canvas& canvas, const Target& target)
        : resizer_(resizer), canvas_(canvas), target_(target) {}

    PlaneSink& begin(const DecodedPlanes& planes) override { return resizer_.begin(planes, canvas_, target_); }

  private:
    PlaneResizer& resizer_;
    const Canvas& canvas_;
    const Target& target_;
};

Box moved(const Box& box, const Origin& by) {
    return spdl::moved(box, by.left, by.top);
}

}  // namespace

void write_image(Decoder& decoder, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch) {
    const Canvas canvas{to, plan.canvas, &format};
    if (plan.black) {
        scratch.resizer.pad(canvas);
        return;
    }
    if (plan.chroma) {
        const PlaneBoxes needed = scratch.plane_resizer.prepare(plan.resampling, plan.chroma->resampling);
        PlanarCanvasPlace place(scratch.plane_resizer, canvas, plan.target);
        decoder.decode_planes(
            {plan.eighths, moved(needed.luma, plan.origin), moved(needed.chroma, plan.chroma->origin)}, place);
        return;
    }
    const Box needed = scratch.resizer.prepare(plan.resampling);
    CanvasPlace place(scratch.resizer, canvas, plan.target);
    decoder.decode({plan.eighths, moved(needed, plan.origin), format.channels()}, place);
}

IdRange ids_of(const ArrayFormat& format) {
    // On its way, an id has three bytes, of which a file fills two.
    switch (format.element()) {
        case 1:
            return {0, 0xff};
        case 2:
            return {0, 0xffff};
        default:
            return {-0x8000, 0xffff};
    }
}

void check_bits(const StoredIds& ids, const ArrayFormat& format) {
    if (ids.bits > 8 && format.element() == 1) {
        throw MediaError("its ids have " + std::to_string(ids.bits) +
                         " bits, and those of the batch 8: dtype='uint16' has room for them");
    }
}

ImageShape IdArrayDecoder::open(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                                const DecodeOptions& /*decode*/) {
    const int bits = static_cast<int>(8 * element_bytes(array_.type));
    return {.stored = array_.size, .orientation = {}, .ids = {StoredIds::Kind::kLevels, bits}};
}

template <typename Id>
void IdArrayDecoder::decode_as(const Box& box, RowSink& sink) const {
    const auto [down, across] = array_.strides;
    const auto [least, most] = accepted_;
    for (int y = box.top; y < box.bottom; ++y) {
        const std::uint8_t* from = array_.data + y * down + box.left * across;
        std::uint8_t* to = sink.row(y - box.top);
        for (int x = box.left; x < box.right; ++x, from += across, to += 3) {
            Id id;
            std::memcpy(&id, from, sizeof id);
            if (const auto value = static_cast<std::int64_t>(id); value < least || value > most) {
                throw MediaError("the id " + std::to_string(value) + " at row " + std::to_string(y) + ", column " +
                                 std::to_string(x) + " is not from " + std::to_string(least) + " to " +
                                 std::to_string(most));
            }
            put_id(static_cast<unsigned>(id), to);
        }
        sink.commit(y - box.top, 1);
    }
}

void IdArrayDecoder::decode(const Region& region, Place& place) {
    RowSink& sink = place.begin({region.box.size().width, 0});
    switch (array_.type) {
        case ElementType::kUint16:
            return decode_as<std::uint16_t>(region.box, sink);
        case ElementType::kInt32:
            return decode_as<std::int32_t>(region.box, sink);
        case ElementType::kInt64:
            return decode_as<std::int64_t>(region.box, sink);
        default:
            return decode_as<std::uint8_t>(region.box, sink);
    }
}

std::uint8_t* reserve_pixels(Size size, ThreadScratch& scratch) {
    scratch.pixels.reserve(rgb_bytes(size) + kJitterSlack);
    return scratch.pixels.data();
}

void write_varied(std::uint8_t* pixels, Size size, const LoadOptions& options, const CropsAndFlips& changes,
                  std::size_t image, std::uint8_t* to, ThreadScratch& scratch) {
    const ArrayFormat& format = options.format;
    const std::size_t bytes = rgb_bytes(size);
    const std::size_t count = bytes / 3;
    if (!changes.places.empty()) {
        const bool blend = options.interpolation != Interpolation::kNearest;
        for (const AffineMap& move : changes.places[image].moves) {
            move_pixels(move, blend, format.pad(), pixels, size, scratch.steps.before);
        }
    }
    if (changes.jitter != nullptr) {
        jitter_pixels(pixels, count, format.channels(), changes.jitter->draw(changes.jitter->indices[image]));
    }
    if (changes.augment != nullptr) {
        changes.augment->draw(changes.augment->indices[image], size, scratch.steps.steps);
        take_steps(scratch.steps.steps, pixels, size, format.channels(), scratch.steps);
    }
    if (format.plain()) {
        std::memcpy(to, pixels, bytes);
        return;
    }
    const std::size_t plane = count * format.element();
    std::uint8_t* const planes[] = {to, to + plane, to + 2 * plane};
    PixelWriter* const write = format.ids() ? write_ids : kernels().write_pixels;
    write(format, pixels, count, planes);
}

}  // namespace spdl
