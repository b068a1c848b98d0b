#include "image/resize/vertical_pass.h"

namespace spdl {

void VerticalPass::begin(const Kernels& kernels, const ResampleTable& table) {
    kernels_ = &kernels;
    table_ = &table;
    window_.resize(static_cast<std::size_t>(table.max_taps));
    next_ = 0;
}

bool VerticalPass::ready(int available) const {
    if (next_ == table_->output) {
        return false;
    }
    const auto index = static_cast<std::size_t>(next_);
    return table_->first[index] + table_->taps[index] <= available;
}

void VerticalPass::write_next(const RowRing& rows, std::size_t bytes, std::uint8_t* to) {
    const auto index = static_cast<std::size_t>(next_);
    const int first = table_->first[index];
    for (int tap = 0; tap < table_->taps[index]; ++tap) {
        window_[static_cast<std::size_t>(tap)] = rows.pixels(first + tap);
    }
    kernels_->vertical(*table_, next_, window_.data(), to, bytes);
    ++next_;
}

}  // namespace spdl
