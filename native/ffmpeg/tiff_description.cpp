#include "ffmpeg/tiff_description.h"

#include <algorithm>
#include <utility>

#include "core/media_error.h"

namespace spdl {
namespace {

std::vector<std::uint32_t> checked(const TiffDirectory& directory, TiffTag tag) {
    std::vector<std::uint32_t> values = directory.integers(tag);
    if (values.empty() && directory.has(tag)) {
        fail_tiff("its directory's entry " + std::to_string(tag) + " is damaged, or not of integers");
    }
    return values;
}

std::uint32_t first_of(const std::vector<std::uint32_t>& values, std::uint32_t otherwise) {
    return values.empty() ? otherwise : values.front();
}

}  // namespace

void fail_tiff(const std::string& what) {
    throw MediaError("cannot decode the image as tiff: " + what);
}

TiffDescription::TiffDescription(std::vector<TiffDirectory> directories) : directories_(std::move(directories)) {}

std::vector<std::uint32_t> TiffDescription::integers(TiffTag tag) const {
    return checked(directory(), tag);
}

std::uint32_t TiffDescription::integer(TiffTag tag, std::uint32_t otherwise) const {
    return first_of(integers(tag), otherwise);
}

std::vector<std::uint32_t> TiffDescription::kept(TiffTag tag) const {
    const auto found = std::find_if(directories_.rbegin(), directories_.rend(),
                                    [&](const TiffDirectory& each) { return each.has(tag); });
    return found == directories_.rend() ? std::vector<std::uint32_t>() : checked(*found, tag);
}

std::uint32_t TiffDescription::kept(TiffTag tag, std::uint32_t otherwise) const {
    return first_of(kept(tag), otherwise);
}

bool is_planar(const TiffDescription& picture) {
    constexpr std::uint32_t kPlanar = 2;
    return picture.kept(kPlanarConfiguration, 1) == kPlanar;
}

}  // namespace spdl
