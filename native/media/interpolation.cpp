#include "media/interpolation.h"

#include <array>
#include <utility>

namespace spdl {

std::optional<Interpolation> parse_interpolation(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, Interpolation>, 5> kNames{{
        {"nearest", Interpolation::kNearest},
        {"area", Interpolation::kArea},
        {"bilinear", Interpolation::kBilinear},
        {"bicubic", Interpolation::kBicubic},
        {"lanczos", Interpolation::kLanczos},
    }};
    for (const auto& [known, interpolation] : kNames) {
        if (known == name) {
            return interpolation;
        }
    }
    return std::nullopt;
}

}  // namespace spdl
