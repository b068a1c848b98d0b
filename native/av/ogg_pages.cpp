#include "av/ogg_pages.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "av/fast_crc.h"
#include "av/sound_tags.h"
#include "core/file_boxes.h"
#include "core/little_endian.h"

namespace spdl {
namespace {

// RFC 3533, section 6.
constexpr std::size_t kHead = 27;
constexpr std::size_t kSum = 22;
constexpr std::string_view kCapture("OggS\0", 5);
constexpr std::uint8_t kContinues = 1;
constexpr std::uint8_t kBegins = 2;
constexpr std::uint8_t kEnds = 4;
constexpr std::uint8_t kFull = 255;  // A segment that another one of the same packet follows.

// The sum is that of a page in which it is 0.
bool has_right_sum(Bytes page) {
    constexpr std::array<std::uint8_t, 4> kNone{};
    std::uint32_t sum = crc_32_ieee(0, page.first(kSum));
    sum = crc_32_ieee(sum, kNone);
    sum = crc_32_ieee(sum, page.subspan(kSum + kNone.size()));
    // libav has its bytes in the other order.
    return sum == BoxReader(page.subspan(kSum, kNone.size())).take(4);
}

// Returns whether bytes are the beginning of a page, of which one byte may be damaged.
bool resembles_page(Bytes bytes) {
    const std::size_t count = std::min(bytes.size(), kCapture.size());
    const auto same = std::inner_product(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                                         kCapture.begin(), 0, std::plus<>(), std::equal_to<>());
    return count == kCapture.size() && same >= 4;
}

}  // namespace

OggPages::OggPages(std::unique_ptr<ByteSource> source) : source_(std::move(source)), size_(source_->size()) {}

std::size_t OggPages::read(std::uint8_t* into, std::size_t size) {
    const std::size_t count = source_->read(into, size);
    const std::int64_t begin = position_;
    position_ += static_cast<std::int64_t>(count);
    if (is_ogg_ && begin <= looked_ && position_ > looked_) {
        look(Bytes(into, count).subspan(static_cast<std::size_t>(looked_ - begin)));
    }
    return count;
}

void OggPages::seek(std::int64_t position) {
    source_->seek(position);
    position_ = position;
}

void OggPages::look(Bytes bytes) {
    const std::int64_t held = looked_ - static_cast<std::int64_t>(held_.size());
    looked_ += static_cast<std::int64_t>(bytes.size());
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    if (held == 0 && held_.size() >= kCapture.size() && !begins(held_, kCapture)) {
        is_ogg_ = false;
        held_ = {};
        return;
    }
    look_at_held();
}

// Returns how long the page is that begins here; 0 if none does, and nothing if it takes more to know that.
std::optional<std::size_t> OggPages::page_bytes(Bytes bytes) const {
    const auto more = finished_ ? std::optional<std::size_t>(0) : std::nullopt;
    const std::size_t count = std::min(bytes.size(), kCapture.size());
    if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count), kCapture.begin())) {
        return 0;
    }
    if (bytes.size() < kHead || bytes.size() < kHead + bytes[kHead - 1]) {
        return more;
    }
    const Bytes segments = bytes.subspan(kHead, bytes[kHead - 1]);
    const std::size_t size = std::accumulate(segments.begin(), segments.end(), kHead + segments.size());
    if (bytes.size() < size) {
        return more;
    }
    return has_right_sum(bytes.first(size)) ? size : 0;
}

void OggPages::look_at_held() {
    const Bytes held(held_);
    std::size_t at = 0;
    while (at < held.size()) {
        const Bytes rest = held.subspan(at);
        const std::int64_t place = looked_ - static_cast<std::int64_t>(rest.size());
        const std::optional<std::size_t> page = page_bytes(rest);
        if (!page) {
            break;
        }
        if (*page > 0) {
            see(rest.first(*page), place);
            at += *page;
            in_damage_ = false;
            continue;
        }
        if (!in_damage_) {
            in_damage_ = true;
            damaged_ = place;
            damaged_page_ = resembles_page(rest);
        }
        at = static_cast<std::size_t>(std::find(rest.begin() + 1, rest.end(), kCapture[0]) - held.begin());
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(at));
}

// Takes the next page that is whole. FFmpeg numbers streams by where they begin; in joined files it does so anew.
void OggPages::see(Bytes page, std::int64_t place) {
    const std::uint8_t flags = page[5];
    const auto serial = load_le<std::uint32_t>(page.data() + 14);
    const auto number = load_le<std::uint32_t>(page.data() + 18);
    const Bytes segments = page.subspan(kHead, page[kHead - 1]);
    const bool begins = (flags & kBegins) != 0;
    num_streams_ = begins && !begins_ ? 0 : num_streams_;
    begins_ = begins;
    const auto [found, is_new] = chains_.try_emplace(serial);
    Chain& chain = found->second;
    if (is_new || begins) {
        chain = {};
        chain.stream = num_streams_++;
        chain.is_header = true;
    } else {
        // Who records what is being sent begins with the headers, and then in the middle. Some writers number nothing.
        const std::uint32_t missing = number - chain.number - 1;
        const bool damaged = damaged_ > chain.place;
        if (missing != 0 && (damaged || (!chain.is_header && missing <= INT32_MAX))) {
            losses_.try_emplace(chain.stream, Loss{chain.is_incomplete ? chain.begun : place, place});
        }
    }
    chain.number = number;
    chain.place = place;
    chain.is_header = chain.is_header && load_le<std::uint64_t>(page.data() + 6) == 0;
    chain.ended = (flags & kEnds) != 0;
    if (!segments.empty()) {
        const Bytes before = segments.first(segments.size() - 1);
        if ((flags & kContinues) == 0 || std::ranges::any_of(before, [](std::uint8_t it) { return it < kFull; })) {
            chain.begun = place;
        }
        chain.is_incomplete = segments.back() == kFull;
    }
}

std::optional<OggPages::Loss> OggPages::loss(int stream, std::int64_t page) const {
    const auto found = losses_.find(stream);
    return found == losses_.end() || page < found->second.from ? std::nullopt : std::optional(found->second);
}

// FFmpeg may have ended before the file does.
void OggPages::finish() {
    constexpr std::size_t kPiece = 1 << 16;
    if (looked_ < size_) {
        std::vector<std::uint8_t> piece(kPiece);
        const std::int64_t before = position_;
        seek(looked_);
        while (read(piece.data(), piece.size()) > 0) {
        }
        seek(before);
    }
    finished_ = true;
    look_at_held();
}

std::optional<OggPages::Loss> OggPages::loss(int stream) {
    if (is_ogg_ && !finished_) {
        finish();
    }
    if (const auto found = losses_.find(stream); found != losses_.end()) {
        return found->second;
    }
    for (const auto& [serial, chain] : chains_) {
        if (chain.stream == stream && !chain.ended && damaged_page_ && damaged_ > chain.place) {
            return Loss{damaged_, size_};
        }
    }
    return std::nullopt;
}

}  // namespace spdl
