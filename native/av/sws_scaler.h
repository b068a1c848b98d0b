#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "av/scaling_weights.h"
#include "av/sws_rows.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/interpolation.h"

namespace spdl {

// Scales pictures of YUV 4:2:0 and makes packed RGB of them, in one pass and with the bytes that libswscale gives, in a
// third of its time. The weights are read off libswscale itself, whatever its release, and a scaler is used only if it
// gives the same for a picture of noise. Immutable: any number of threads may use one.
class SwsScaler {
  public:
    // What a scaler is made for.
    struct Form {
        Size from;
        Size to;
        AVPixelFormat format;
        AVColorSpace matrix;
        AVColorRange range;
        Interpolation interpolation;

        bool operator==(const Form&) const = default;
    };

    // Room for the rows between the two passes. It belongs to one thread.
    using Scratch = std::vector<std::int16_t>;

    // Returns the form for pictures like this one; nothing if there are no scalers for it.
    static std::optional<Form> form_of(const AVFrame& like, Size to, Interpolation interpolation);

    // Returns the scaler, if it was made before. It is null if libswscale gives something else.
    static std::optional<std::shared_ptr<const SwsScaler>> known(const Form& form);

    // Returns the forms of all that were made and are remembered, and whether each works. For tests.
    static std::vector<std::pair<Form, bool>> all_known();

    // Makes the scaler, which takes about as long as scaling a few pictures, and remembers it. Null as above.
    static std::shared_ptr<const SwsScaler> make(const Form& form);

    // Writes a part of the scaled picture, which is of the scaler's form.
    void scale(const AVFrame& frame, const Box& part, std::uint8_t* to, std::ptrdiff_t stride, Scratch& scratch) const;

  private:
    struct Axis {
        ScalingWeights luma;
        ScalingWeights chroma;
    };

    explicit SwsScaler(const Form& form) : form_(form) {}

    bool prepare();
    [[nodiscard]] bool gives_the_same() const;

    Form form_;
    Axis across_;
    Axis down_;
    SwsYuvColors colors_;
};

}  // namespace spdl
