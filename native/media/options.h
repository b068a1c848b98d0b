#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

using OptionList = std::vector<std::pair<std::string, std::string>>;

// How an image is found in its input.
struct DemuxOptions {
    std::string format;  // Empty: detected from the bytes.
    OptionList format_options;
    int buffer_size = 8096;
    std::string bsf;          // Bitstream filters for the packet. Empty: none.
    bool for_ffmpeg = false;  // FFmpeg is to decode it.

    // Returns whether the options ask for something that only FFmpeg has.
    [[nodiscard]] bool need_ffmpeg() const {
        return for_ffmpeg || !format.empty() || !format_options.empty() || !bsf.empty();
    }
};

struct Backend;

// Which pictures are read as ids. An id is a number as the file has it, instead of a colour.
enum class IdSource {
    kNone,    // All become colours.
    kIndex,   // Those with a palette.
    kGray16,  // Gray ones of 16 bits.
    kAny,     // Both, and gray ones of fewer bits.
};

// How an image is decoded.
struct DecodeOptions {
    std::string decoder;  // One of FFmpeg's. Empty: libavcodec's own choice for the codec.
    OptionList decoder_options;
    std::int64_t max_pixels = kMaxPixels;
    const Backend* backend = nullptr;  // The only one that may decode; null: the first that can.
    bool keep_damaged = false;         // For JPEG decoded by libjpeg-turbo only: keep what there is of the image.
    IdSource ids = IdSource::kNone;

    // Returns whether the options ask for something that only FFmpeg has.
    [[nodiscard]] bool need_ffmpeg() const { return !decoder.empty() || !decoder_options.empty(); }
};

// How every image of a batch is resized, turned and written.
struct LoadOptions {
    Size target;  // A side of 0 is open, as in place().
    Fit fit = Fit::kPad;
    Size center;  // The centre that is then cut out; a side of 0 stays.
    Interpolation interpolation = Interpolation::kBicubic;
    bool flip = false;
    bool exact = true;  // If false, the planes of a JPEG may be resized, and at a fraction of their size, and a resize
                        // may be a level off.
    bool upright = false;  // Turn the image as its EXIF data says.
    ArrayFormat format{};
    IdSource ids = IdSource::kNone;  // With ids, the format has them too, and the interpolation is kNearest.
};

// A moment in seconds, as a fraction. The denominator is positive.
struct Moment {
    std::int64_t numerator = 0;
    int denominator = 1;
};

// The moments from `start` on, which belongs to them, to `end`, which does not. A bound that is missing bounds nothing.
struct TimeWindow {
    std::optional<Moment> start;
    std::optional<Moment> end;

    [[nodiscard]] bool whole() const { return !start && !end; }
};

// The crop and the flip of one image.
struct CropAndFlip {
    Box box;  // In the upright image, if the image is turned upright.
    bool flip = false;
    std::optional<Placement> placement = {};  // Where the resized crop lies. If it is missing, LoadOptions say it.
};

// The way of one image to its canvas.
struct ImagePlace {
    Orientation turn;  // How the upright image lies against the one that the crop is cut out of.
    CropAndFlip crop;
    std::vector<AffineMap> moves{};  // What then happens to the whole canvas, one after the other.
};

}  // namespace spdl
