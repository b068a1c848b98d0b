#include "ffmpeg/known_colors.h"

#include <cstring>

namespace spdl {
namespace {

template <typename Enumeration>
void forget_unknown(Enumeration& value, Enumeration count, Enumeration unspecified) {
    int number = 0;
    static_assert(sizeof(number) == sizeof(value));
    std::memcpy(&number, &value, sizeof(number));
    if (number < 0 || number >= static_cast<int>(count)) {
        value = unspecified;
    }
}

}  // namespace

void forget_unknown_colors(AVFrame& frame) {
    forget_unknown(frame.colorspace, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED);
    forget_unknown(frame.color_range, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED);
    forget_unknown(frame.color_primaries, AVCOL_PRI_NB, AVCOL_PRI_UNSPECIFIED);
    forget_unknown(frame.color_trc, AVCOL_TRC_NB, AVCOL_TRC_UNSPECIFIED);
}

}  // namespace spdl
