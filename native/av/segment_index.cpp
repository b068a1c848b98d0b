#include "av/segment_index.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "av/mp4_boxes.h"
#include "av/mp4_tracks.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// What a segment index leads to: where fragments begin, and when the first of their frames is shown.
struct Segments {
    std::uint64_t track = 0;
    std::int64_t unit = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
};

Segments read_segments(Bytes content, std::int64_t end) {
    BoxReader box(content);
    const std::size_t bytes = box.take(1) == 0 ? 4 : 8;
    box.skip(3);
    Segments found;
    found.track = box.take(4);
    found.unit = static_cast<std::int64_t>(box.take(4));
    auto time = static_cast<std::int64_t>(box.take(bytes));
    auto place = static_cast<std::int64_t>(box.take(bytes));
    if (std::min(time, place) < 0 || std::max(time, place) > kMaxTime) {
        return found;
    }
    place += end;
    box.skip(2);
    for (std::uint64_t left = box.take(2); left > 0 && !box.rest().empty(); --left) {
        found.parts.emplace_back(place, time);
        place += static_cast<std::int64_t>(box.take(4));
        time += static_cast<std::int64_t>(box.take(4));
        box.skip(4);
    }
    return found;
}

// Returns when the first packet of a track in a fragment is decoded; nothing if the fragment does not say, or has none.
std::optional<std::int64_t> first_decoded(Bytes fragment, std::uint64_t track) {
    while (const auto box = take_box(fragment)) {
        if (box->name != "traf") {
            continue;
        }
        BoxReader header(find_box(box->content, "tfhd"));
        header.skip(4);
        BoxReader time(find_box(box->content, "tfdt"));
        if (header.take(4) == track && !time.rest().empty()) {
            const std::size_t bytes = time.take(1) == 0 ? 4 : 8;
            time.skip(3);
            const auto decoded = static_cast<std::int64_t>(time.take(bytes));
            return decoded >= 0 && decoded <= kMaxTime ? std::optional(decoded) : std::nullopt;
        }
    }
    return std::nullopt;
}

// Where fragments begin, and when they are decoded.
using Fragments = std::map<std::int64_t, std::optional<std::int64_t>>;

// Returns whether each part is shown when its fragment is decoded, or later, but before the next one is decoded.
bool agrees(const Segments& segments, const Fragments& fragments, const Mp4Track& track) {
    const std::int64_t shift = track.edits.empty() ? 0 : track.edits.front();
    const AVRational shown_unit{1, static_cast<int>(segments.unit)};
    const AVRational decoded_unit{1, static_cast<int>(track.unit)};
    for (std::size_t part = 0; part < segments.parts.size(); ++part) {
        const auto [place, time] = segments.parts[part];
        const auto fragment = fragments.lower_bound(place);
        const bool within = fragment != fragments.end() &&
                            (part + 1 == segments.parts.size() || fragment->first < segments.parts[part + 1].first);
        if (!within || !fragment->second) {
            return false;
        }
        const std::int64_t decoded = *fragment->second - shift;
        const bool early =
            part > 0 && av_compare_ts(segments.parts[part - 1].second, shown_unit, decoded, decoded_unit) > 0;
        if (early || av_compare_ts(decoded, decoded_unit, time, shown_unit) > 0) {
            return false;
        }
    }
    return !segments.parts.empty();
}

}  // namespace

bool has_wrong_segment_index(AVIOContext& input, std::int64_t size, int track) {
    Peek file(input, size);
    const auto id = static_cast<std::uint64_t>(track);
    std::vector<Segments> all;
    Fragments fragments;
    find_box_where(file, [&](const PlacedBox& box) {
        if (box.is("sidx")) {
            all.push_back(read_segments(read_box(file, box), box.end));
        } else if (box.is("moof") && !all.empty()) {
            fragments[box.place] = first_decoded(read_box(file, box), id);
        }
        return false;
    });
    if (all.empty()) {
        return false;
    }
    const std::vector<Mp4Track> tracks = read_tracks(file);
    const auto found = std::ranges::find(tracks, id, &Mp4Track::id);
    constexpr std::int64_t kMostUnits = INT32_MAX;
    if (found == tracks.end() || found->unit <= 0 || found->unit > kMostUnits ||
        std::ranges::find(found->edits, -1) != found->edits.end()) {
        return true;
    }
    const bool own = std::ranges::find(all, id, &Segments::track) != all.end();
    return std::ranges::any_of(all, [&](const Segments& segments) {
        return (!own || segments.track == id) &&
               (segments.unit <= 0 || segments.unit > kMostUnits || !agrees(segments, fragments, *found));
    });
}

}  // namespace spdl
