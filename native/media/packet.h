#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "core/non_copyable.h"
#include "media/image_format.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

// A fraction, such as the unit of timestamps in seconds.
struct Rational {
    int numerator = 0;
    int denominator = 1;
};

// The properties of a frame other than its pixels.
struct FrameProperties {
    static constexpr std::int64_t kNoTime = INT64_MIN;

    std::int64_t time = kNoTime;  // When it is shown, in units of `time_base`.
    Rational time_base;           // In seconds.
    std::vector<std::pair<std::string, std::string>> metadata;
};

// A decoded image in host memory.
class Frame : NonCopyable {
  public:
    virtual ~Frame() = default;

    [[nodiscard]] virtual Picture picture() const = 0;
    [[nodiscard]] virtual int num_planes() const = 0;

    // The size of the memory that holds the pixels.
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    [[nodiscard]] virtual FrameProperties properties() const = 0;
    virtual void set_properties(const FrameProperties& properties) = 0;

    // Returns the first plane. Only the maker of the frame may write to it.
    virtual std::uint8_t* pixels() noexcept = 0;

    // Returns another frame that shares the pixels.
    [[nodiscard]] virtual std::unique_ptr<Frame> clone() const = 0;
};

// Makes a frame for pixels in one of FFmpeg's pixel formats, which is packed. They are not initialised.
using StoredFrameMaker = std::unique_ptr<Frame> (*)(Size size, const char* pixel_format);

// Makes a frame without gaps between rows, with room for an image in this format. Its pixels are not initialised.
using FrameMaker = std::unique_ptr<Frame> (*)(Size size, const ArrayFormat& format);

// The properties that an encoded image states.
struct CodecInfo {
    std::string name;
    Size size;
    std::string pixel_format;
    Rational time_base;
    Rational sample_aspect_ratio;
};

// One encoded image, found and delimited but not decoded. Immutable: any number of threads may decode it.
class Packet : NonCopyable {
  public:
    virtual ~Packet() = default;

    // Returns the encoded size.
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    // Decodes the image, once, if only the decoder knows. Throws MediaError then.
    [[nodiscard]] virtual const CodecInfo& info() const = 0;

    // Returns the image for a decoder. It is valid as long as the packet lives.
    [[nodiscard]] virtual EncodedImage image() const = 0;
};

// Bytes that are kept unchanged.
class KeptPacket final : public Packet {
  public:
    // `owner` keeps the image's bytes in place.
    KeptPacket(std::shared_ptr<const void> owner, const EncodedImage& image, CodecInfo info)
        : owner_(std::move(owner)), bytes_(image.bytes), page_(image.page), info_(std::move(info)) {}

    [[nodiscard]] std::size_t bytes() const override { return bytes_.size(); }
    [[nodiscard]] const CodecInfo& info() const override { return info_; }
    [[nodiscard]] EncodedImage image() const override { return {bytes_, info_.name, nullptr, page_}; }

  private:
    std::shared_ptr<const void> owner_;
    Bytes bytes_;
    std::optional<std::uint64_t> page_;
    CodecInfo info_;
};

}  // namespace spdl
