#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bytes.h"
#include "core/geometry.h"
#include "image/heic/sample_colors.h"

namespace spdl {

// How the samples of a picture lie: luma or green in the first plane, and if it is not gray, Cb or blue and Cr or red
// in two others.
struct SampleLayout {
    int depth = 8;  // In bits. Samples of more than 8 have two bytes, in the machine's order.
    bool gray = false;
    Size chroma_shift;  // How many times the sides of the other planes are halved.
    bool operator==(const SampleLayout&) const = default;
};

// A decoded picture in somebody else's memory.
struct CodedPicture {
    SampleLayout layout;
    SampleColors colors;  // As its bitstream says.
    std::array<const std::uint8_t*, 3> planes{};
    std::array<std::ptrdiff_t, 3> row_distances{};  // In bytes.
};

// Decodes single pictures of HEVC.
class PictureDecoder {
  public:
    virtual ~PictureDecoder() = default;
    PictureDecoder(const PictureDecoder&) = delete;
    PictureDecoder& operator=(const PictureDecoder&) = delete;

    // Decodes one picture from the pieces of its data and from what is in its box hvcC. The result is valid until the
    // next call. Throws MediaError if it is damaged or has another size.
    virtual CodedPicture decode(Bytes config, std::span<const Bytes> pieces, Size size) = 0;

    // Lets go of all memory.
    virtual void forget() noexcept = 0;

  protected:
    PictureDecoder() = default;
};

}  // namespace spdl
