#include "av/fast_scaling.h"

namespace spdl {

const SwsScaler* FastScaling::find(const std::optional<SwsScaler::Form>& form) {
    // To make a scaler costs about what it saves in so many pictures.
    constexpr int kWorthIt = 8;
    if (!form) {
        return nullptr;
    }
    if (form_ != form) {
        form_ = form;
        came_ = 0;
        const auto known = SwsScaler::known(*form);
        decided_ = known.has_value();
        scaler_ = known.value_or(nullptr);
    }
    if (!decided_ && ++came_ > kWorthIt) {
        scaler_ = SwsScaler::make(*form);
        decided_ = true;
    }
    return scaler_.get();
}

}  // namespace spdl
