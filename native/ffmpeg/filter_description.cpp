#include "ffmpeg/filter_description.h"

namespace spdl {
namespace {

std::string orientation_filters(const Orientation& orientation) {
    if (orientation.transposed) {
        // Each of these transposes, and then mirrors.
        const char* const direction = orientation.mirrored_x ? (orientation.mirrored_y ? "clock_flip" : "cclock")
                                                             : (orientation.mirrored_y ? "clock" : "cclock_flip");
        return std::string("transpose=dir=") + direction + ",";
    }
    return std::string(orientation.mirrored_x ? "hflip," : "") + (orientation.mirrored_y ? "vflip," : "");
}

const char* scale_flags(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kNearest:
            return "neighbor";
        case Interpolation::kArea:
            return "area";
        case Interpolation::kBilinear:
            return "bilinear";
        case Interpolation::kBicubic:
            return "bicubic";
        case Interpolation::kLanczos:
            break;
    }
    return "lanczos";
}

std::string sides(Size size) {
    return "=w=" + std::to_string(size.width) + ":h=" + std::to_string(size.height);
}

std::string scale_filters(const LoadOptions& options) {
    const Size target = options.target;
    if (target == Size{}) {
        return {};
    }
    // FFmpeg before 7 squeezes the levels of a gray picture into 16 to 235 when it scales it.
    const char* const range = options.format.channels() == Channels::kGray ? ":out_range=full" : "";
    // FFmpeg averages the colours of two pixels of RGB unless these flags forbid it. If the number of pixels is odd,
    // the last pair is the last pixel and whatever follows it in memory.
    const std::string scale = "scale" + sides(target) + ":flags=" + scale_flags(options.interpolation) +
                              "+accurate_rnd+full_chroma_int+full_chroma_inp" + range;
    if (options.fit == Fit::kStretch) {
        return scale + ",";
    }
    const bool open = target.width == 0 || target.height == 0;
    const std::string pad = ",pad" + sides(target) + ":x=-1:y=-1:color=black,";
    if (options.fit == Fit::kPad || open) {
        return scale + ":force_original_aspect_ratio=decrease" + (options.fit == Fit::kPad ? pad : ",");
    }
    return scale + ":force_original_aspect_ratio=increase,crop" + sides(target) + ",";
}

}  // namespace

std::string filter_description(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop) {
    std::string filters;
    if (!shape.orientation.upright() || crop.box != whole(shape.upright())) {
        // Formats with subsampled chroma would be cut and turned at every other pixel only.
        const Size size = crop.box.size();
        filters = "format=pix_fmts=rgb24," + orientation_filters(shape.orientation) + "crop" + sides(size) +
                  ":x=" + std::to_string(crop.box.left) + ":y=" + std::to_string(crop.box.top) + ",";
    }
    filters += scale_filters(options);
    if (options.center != Size{}) {
        filters += "crop" + sides(options.center) + ",";
    }
    if (options.flip != crop.flip) {
        filters += "hflip,";
    }
    return filters + "format=pix_fmts=" + pixel_format_name(options.format.channels());
}

}  // namespace spdl
