#include "av/mp4_tracks.h"

#include <algorithm>

#include "av/mp4_boxes.h"

namespace spdl {
namespace {

// The version of a box says whether its times have 8 bytes or 4.
std::size_t take_time_bytes(BoxReader& box) {
    const bool large = box.take(1) == 1;
    box.skip(3);
    return large ? 8 : 4;
}

std::int64_t take_signed(BoxReader& box, std::size_t bytes) {
    const std::uint64_t value = box.take(bytes);
    return bytes == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value)) : static_cast<std::int64_t>(value);
}

std::vector<std::int64_t> read_edits(Bytes content) {
    BoxReader box(content);
    const std::size_t bytes = take_time_bytes(box);
    const std::uint64_t count = box.take(4);
    std::vector<std::int64_t> edits;
    while (edits.size() < count && !box.rest().empty()) {
        box.skip(bytes);  // How long it is.
        edits.push_back(take_signed(box, bytes));
        box.skip(4);  // How fast.
    }
    return edits;
}

Mp4Track read_track(Peek& file, const PlacedBox& trak) {
    Mp4Track track;
    for_each_box(file, trak, "tkhd", [&](const PlacedBox& header) {
        const std::vector<std::uint8_t> content = read_box(file, header);
        BoxReader box{Bytes(content)};
        box.skip(2 * take_time_bytes(box));
        track.id = box.take(4);
    });
    for_each_box(file, trak, "edts", [&](const PlacedBox& edts) {
        for_each_box(file, edts, "elst",
                     [&](const PlacedBox& list) { track.edits = read_edits(read_box(file, list)); });
    });
    for_each_box(file, trak, "mdia", [&](const PlacedBox& media) {
        for_each_box(file, media, "mdhd", [&](const PlacedBox& header) {
            const std::vector<std::uint8_t> content = read_box(file, header);
            BoxReader box{Bytes(content)};
            box.skip(2 * take_time_bytes(box));
            track.unit = static_cast<std::int64_t>(box.take(4));
        });
    });
    return track;
}

}  // namespace

std::vector<Mp4Track> read_tracks(Peek& file) {
    std::vector<Mp4Track> tracks;
    find_box_where(file, [&](const PlacedBox& box) {
        if (!box.is("moov")) {
            return false;
        }
        for_each_box(file, box, "trak", [&](const PlacedBox& trak) { tracks.push_back(read_track(file, trak)); });
        return true;
    });
    return tracks;
}

std::int64_t count_shown_parts(AVIOContext& input, std::int64_t size, int track) {
    Peek file(input, size);
    for (const Mp4Track& each : read_tracks(file)) {
        if (each.id == static_cast<std::uint64_t>(track)) {
            return each.edits.end() - std::ranges::find_if(each.edits, [](std::int64_t begin) { return begin != -1; });
        }
    }
    return 0;
}

}  // namespace spdl
