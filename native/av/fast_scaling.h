#pragma once

#include <memory>
#include <optional>

#include "av/sws_scaler.h"

namespace spdl {

// Says for each picture of a video whether a SwsScaler scales it. One is made only if some pictures of its form have
// come: for fewer it is not worth it. One thread at a time.
class FastScaling {
  public:
    // Returns null if libswscale is to scale a picture of this form, or of none.
    const SwsScaler* find(const std::optional<SwsScaler::Form>& form);

    // Returns what SwsScaler::scale needs.
    SwsScaler::Scratch& scratch() { return scratch_; }

  private:
    std::optional<SwsScaler::Form> form_;
    int came_ = 0;  // Pictures of the form.
    bool decided_ = false;
    std::shared_ptr<const SwsScaler> scaler_;
    SwsScaler::Scratch scratch_;
};

}  // namespace spdl
