#pragma once

#include <optional>
#include <string_view>

namespace spdl {

enum class Interpolation { kNearest, kArea, kBilinear, kBicubic, kLanczos };

std::optional<Interpolation> parse_interpolation(std::string_view name);

}  // namespace spdl
