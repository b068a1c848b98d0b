#include "image/jpeg/entropy_choice.h"

#include <algorithm>
#include <atomic>

#include "image/jpeg/entropy_decoder.h"

namespace spdl {
namespace {

constexpr std::string_view kOwn = "own";

std::atomic<bool>& own_selected() {
    static std::atomic<bool> selected = EntropyDecoder::kCompiledIn;
    return selected;
}

}  // namespace

std::vector<std::string_view> entropy_decoder_names() {
    if (EntropyDecoder::kCompiledIn) {
        return {kOwn, "libjpeg"};
    }
    return {"libjpeg"};
}

bool select_entropy_decoder(std::string_view name) {
    const auto names = entropy_decoder_names();
    const auto found = name.empty() ? names.begin() : std::ranges::find(names, name);
    if (found == names.end()) {
        return false;
    }
    own_selected().store(*found == kOwn, std::memory_order_relaxed);
    return true;
}

bool own_entropy_decoder_selected() noexcept {
    return own_selected().load(std::memory_order_relaxed);
}

}  // namespace spdl
