#include "av/sound_index.h"

#include <algorithm>

namespace spdl {
namespace {

constexpr std::size_t kSeveral = static_cast<std::size_t>(-1);

}  // namespace

// FNV-1a, by Fowler, Noll and Vo.
std::uint64_t SoundIndex::name(const AVPacket& packet) {
    constexpr std::uint64_t kPrime = 0x100000001B3;
    constexpr int kLooked = 64;
    std::uint64_t hash = 0xCBF29CE484222325 ^ static_cast<std::uint64_t>(packet.pos) * kPrime;
    hash = (hash ^ static_cast<std::uint64_t>(packet.size)) * kPrime;
    for (int i = 0; i < std::min(packet.size, kLooked); ++i) {
        hash = (hash ^ packet.data[i]) * kPrime;
    }
    return hash;
}

void SoundIndex::add(const Entry& entry) {
    const auto [found, is_new] = numbers_.emplace(entry.name, entries_.size());
    if (!is_new) {
        found->second = kSeveral;
    }
    entries_.push_back(entry);
}

std::size_t SoundIndex::begin(std::int64_t place, std::int64_t samples_before) const {
    const auto after =
        std::ranges::upper_bound(entries_, place, {}, [](const Entry& it) { return it.place + it.samples; });
    auto number = static_cast<std::size_t>(after - entries_.begin());
    for (std::int64_t samples = 0; number > 0 && samples < samples_before; --number) {
        samples += entries_[number - 1].samples;
    }
    return number;
}

std::optional<std::size_t> SoundIndex::find(std::uint64_t name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() || found->second == kSeveral ? std::nullopt : std::optional(found->second);
}

}  // namespace spdl
