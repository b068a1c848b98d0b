#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/non_copyable.h"
#include "media/image_format.h"
#include "media/options.h"
#include "media/packet.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

// The interface that every backend implements. A decoder belongs to one thread and keeps its memory from image to
// image. All errors are MediaErrors.
class Decoder : NonCopyable {
  public:
    virtual ~Decoder() = default;

    // Returns whether it decodes this image with these options. Called for every image, so it looks at the first bytes
    // only.
    [[nodiscard]] virtual bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                                       const DecodeOptions& decode) const noexcept = 0;

    // Returns the kind of memory that it decodes into.
    [[nodiscard]] virtual MemoryKind output() const noexcept = 0;

    // Begins an image that it accepts. Reads as much of it as needed for the shape, and checks its size. The bytes must
    // stay in place until close().
    virtual ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) = 0;

    // Crops, flips and resizes the open image, if the decoder does so by itself with the options of open(). Returns the
    // new shape then. Returns nothing if others have to do it, which is the usual case.
    virtual std::optional<ImageShape> transform(const ImageShape& shape, const LoadOptions& options,
                                                const CropAndFlip& crop);

    // Decodes a part of the open image into its place, once.
    virtual void decode(const Region& region, Place& place) = 0;

    // Does the same with the planes of an image whose shape has `planes`.
    virtual void decode_planes(const PlaneRegion& region, PlanePlace& place);

    // Returns whether it decodes an image that it accepts whole to the pixel format of its shape, which is packed.
    [[nodiscard]] virtual bool packs(const EncodedImage& /*image*/) const noexcept { return false; }

    // Does so with the open image, once. Rows begin `row_bytes` apart.
    virtual void decode_whole(std::uint8_t* to, std::size_t row_bytes);

    // Returns what is wrong with the image that was decoded last and kept in spite of it; nothing if all is well.
    [[nodiscard]] virtual std::string damage() const { return {}; }

    // Returns the properties of the open image.
    [[nodiscard]] virtual FrameProperties properties() const;

    // Lets go of the image.
    virtual void close() noexcept {}

    // Finds the image in its bytes, which `owner` keeps in place. Unless a backend has a demuxer, the packet holds the
    // unchanged bytes.
    virtual std::shared_ptr<const Packet> demux(std::shared_ptr<const void> owner, const EncodedImage& image,
                                                const DemuxOptions& options);
};

// A library that decodes images.
struct Backend {
    const char* name;   // The name that users write.
    const char* scope;  // For the error if it was named for an image that it does not decode: "decodes JPEG only".
    std::unique_ptr<Decoder> (*make_decoder)();
};

template <typename T>
std::unique_ptr<Decoder> make_decoder() {
    return std::make_unique<T>();
}

// Adds a backend after those that are there. Every program does this once, before it starts threads. `backend` must
// live as long as the program; adding it again has no effect.
void register_backend(const Backend& backend);

// Registers every backend of the extension (bindings/backends.cpp).
void register_backends();

// The backends in the order in which they are asked.
std::span<const Backend* const> backends() noexcept;

// Returns null if no backend has that name.
const Backend* find_backend(std::string_view name) noexcept;

// Returns the name for users; "" for null.
inline const char* backend_name(const Backend* backend) {
    return backend == nullptr ? "" : backend->name;
}

// Throws the MediaError for an image that the backend does not decode although the user named it.
[[noreturn]] void refuse(const Backend& backend);

// The decoders of one thread: one of each backend.
class DecoderSet {
  public:
    DecoderSet();

    struct Choice {
        const Backend& backend;
        Decoder& decoder;
    };

    // Returns the first backend that decodes the image into memory of this kind; if the options name a backend, only
    // that one. Throws MediaError if none exists.
    Choice choose(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                  MemoryKind memory = MemoryKind::kHost);

  private:
    std::vector<std::unique_ptr<Decoder>> decoders_;  // In the order of backends().
};

// A decoded image, and what decoded it.
struct DecodedImage {
    std::unique_ptr<Frame> frame;
    const Backend* backend = nullptr;
    bool dropped_pages = false;  // It is only the first of several pages.
};

// A picture as PackedDecoder::describe finds it.
struct PackedShape {
    Size size;
    PackedFormat format;
    const char* codec = "";  // FFmpeg's name.
    bool scalable = false;   // As in ImageShape,
    bool wavelets = false;   // and these, too.
    bool more_pages = false;
};

// The part of a picture that is decoded, and as what.
struct PackedRegion {
    int eighths = 8;  // As in Region.
    Box box;          // In the picture at that size.
    PackedFormat format;
};

// The common part of the decoders of one format each: they decode to packed pixels in memory, and the rows are taken
// from there.
class PackedDecoder : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept final;
    [[nodiscard]] MemoryKind output() const noexcept final { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) final;
    [[nodiscard]] bool packs(const EncodedImage& /*image*/) const noexcept final { return true; }
    void decode_whole(std::uint8_t* to, std::size_t row_bytes) final;
    void close() noexcept final;

  protected:
    // Returns whether the format is one that this decoder is for.
    [[nodiscard]] virtual bool takes(ImageFormat format) const noexcept = 0;

    // Reads the header of a picture whose bytes stay in place until forget(), which follows even if this throws. The
    // caller checks the size, before anything is allocated for it; limits of the format's own library are set to
    // `max_pixels`.
    virtual PackedShape describe(Bytes bytes, std::int64_t max_pixels) = 0;

    // Has decode_packed() deliver the numbers of the described picture as they are stored, in one channel: indices of a
    // palette or levels of gray. Returns what they are; a picture of any other kind stays as it is.
    virtual StoredIds show_ids() { return {}; }

    // Returns the part that decode_packed() must be asked for if `wanted` is wanted: it may be larger. All of the
    // picture, unless a decoder saves time by less.
    [[nodiscard]] virtual Box decodable(int eighths, const Box& wanted) const;

    // Decodes a part that decodable() has named, once. Its format is the described one, the same with samples of one
    // byte, or that of the ids. `to` has room for the rows, which begin `row_bytes` apart.
    virtual void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) = 0;

    // Lets go of the picture.
    virtual void forget() noexcept = 0;

    // The size of the open picture at a fraction of its full size.
    [[nodiscard]] Size scaled_size(int eighths) const;

  private:
    PackedShape shape_;
    StoredIds ids_;
    AlignedBuffer pixels_;
};

}  // namespace spdl

// Registers a backend that some file of the program defines in namespace spdl. Functions that use it stand in that very
// namespace, not in an anonymous one inside.
#define SPDL_REGISTER(backend)        \
    do {                              \
        extern const Backend backend; \
        register_backend(backend);    \
    } while (false)
