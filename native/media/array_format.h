#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/channels.h"
#include "core/geometry.h"

namespace spdl {

enum class Layout { kNhwc, kNchw };

using PerChannel = std::array<float, 3>;

// Rounds to the nearest 16-bit float, halves to even, as the processors' own instruction does.
std::uint16_t to_half(float value);

// The format of the images of a batch in memory.
class ArrayFormat {
  public:
    // Bytes are written as they are.
    explicit ArrayFormat(Channels channels = Channels::kRgb, Layout layout = Layout::kNhwc);

    // Floats (16 or 32 bits) are byte * scale + offset, rounded once to 32 bits.
    ArrayFormat(Channels channels, Layout layout, ElementType type, const PerChannel& scale, const PerChannel& offset);

    [[nodiscard]] Channels channels() const { return channels_; }
    [[nodiscard]] Layout layout() const { return layout_; }
    [[nodiscard]] ElementType type() const { return type_; }
    [[nodiscard]] std::size_t element() const { return element_bytes(type_); }
    [[nodiscard]] const PerChannel& scale() const { return scale_; }
    [[nodiscard]] const PerChannel& offset() const { return offset_; }

    // Returns whether rows are written as they come out of the resize.
    [[nodiscard]] bool plain() const {
        return type_ == ElementType::kUint8 && layout_ == Layout::kNhwc && channels_ != Channels::kGray;
    }
    [[nodiscard]] std::vector<std::size_t> shape(std::size_t count, Size size) const;
    [[nodiscard]] std::size_t image_bytes(Size size) const;

    // Returns what each byte becomes in a channel of floats.
    [[nodiscard]] const std::array<float, 256>& floats(std::size_t channel) const { return floats_[channel]; }
    [[nodiscard]] const std::array<std::uint16_t, 256>& halves(std::size_t channel) const { return halves_[channel]; }

    // Writes the element that `byte` becomes in a channel.
    void write(std::size_t channel, std::uint8_t byte, std::uint8_t* to) const;

  private:
    Channels channels_;
    Layout layout_;
    ElementType type_ = ElementType::kUint8;
    PerChannel scale_{1, 1, 1};
    PerChannel offset_{0, 0, 0};
    std::array<std::array<float, 256>, 3> floats_;
    std::array<std::array<std::uint16_t, 256>, 3> halves_;
};

}  // namespace spdl
