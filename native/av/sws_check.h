#pragma once

#include "av/sws_scaler.h"

namespace spdl {

// Returns whether a scaler gives the bytes that libswscale gives for a picture of noise.
bool scales_as_libswscale(const SwsScaler& scaler);

}  // namespace spdl
