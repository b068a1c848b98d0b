#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "av/container.h"
#include "av/file_end.h"
#include "av/packets.h"
#include "core/image_items.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// The place of a box of MP4 in its file.
struct PlacedBox {
    std::array<std::uint8_t, 8> head{};
    std::int64_t place = 0;
    std::int64_t begin = 0;  // Of what is in it.
    std::int64_t end = 0;
    bool whole = true;  // Whether it ends within what it is in.

    [[nodiscard]] bool is(std::string_view name) const { return spdl::is(head.data() + 4, name); }
};

// Calls `visit` with each box that lies one after the other between two places, up to one that is not whole. Returns
// whether it returned true, which ends this. A file with an absurd number of boxes is not read to its end.
template <typename Visit>
bool find_box_where(Peek& file, std::int64_t place, std::int64_t end, Visit visit) {
    constexpr int kMostBoxes = 100'000;
    for (int i = 0; i < kMostBoxes; ++i) {
        PlacedBox box;
        if (!file.read(place, box.head)) {
            return false;
        }
        std::array<std::uint8_t, 16> head{};
        std::uint64_t size = BoxReader(box.head).take(4);
        box.place = place;
        box.begin = place + 8;
        if (size == 1 && file.read(place, head)) {
            size = BoxReader(Bytes(head).subspan(8)).take(8);
            box.begin = place + 16;
        }
        if (size < box.head.size()) {
            return false;
        }
        box.whole = size <= static_cast<std::uint64_t>(end - place);
        box.end = box.whole ? place + static_cast<std::int64_t>(size) : end;
        if (visit(box)) {
            return true;
        }
        if (!box.whole) {
            return false;
        }
        place = box.end;
    }
    return false;
}

// Calls `visit` with each box on the outermost level.
template <typename Visit>
bool find_box_where(Peek& file, Visit visit) {
    return find_box_where(file, 0, file.size(), visit);
}

// Calls `visit` with each box of that name within another one.
template <typename Visit>
void for_each_box(Peek& file, const PlacedBox& outer, std::string_view name, Visit visit) {
    find_box_where(file, outer.begin, outer.end, [&](const PlacedBox& box) {
        if (box.is(name)) {
            visit(box);
        }
        return false;
    });
}

// Returns the content of a box; nothing if it is larger than any box about times.
inline std::vector<std::uint8_t> read_box(Peek& file, const PlacedBox& box) {
    constexpr std::int64_t kMost = 1 << 24;
    std::vector<std::uint8_t> content;
    if (box.end > box.begin && box.end - box.begin <= kMost) {
        content.resize(static_cast<std::size_t>(box.end - box.begin));
        if (!file.read(box.begin, content)) {
            content.clear();
        }
    }
    return content;
}

// A track as the header of an MP4 file describes it (ISO/IEC 14496-12).
struct Mp4Track {
    std::uint64_t id = 0;
    std::int64_t unit = 0;  // How many of its times are a second.
    // The starts of the parts that its edit list shows in sequence, in its own times; -1 stands for a pause.
    std::vector<std::int64_t> edits;
};

std::vector<Mp4Track> read_tracks(Peek& file);

// Returns how many parts of a track are shown, one after the other, as its edit list says, which may begin with a
// pause. libavformat has a part of the track shown in place of any other pause. The position in the file, of that size,
// does not change.
[[nodiscard]] std::int64_t count_shown_parts(AVIOContext& input, std::int64_t size, int track);

// Returns the packets needed to decode the window of one stream. For a video, they make the frames that the index of
// the whole video has within the window. A file whose own index leads to them is not read further; otherwise all
// packets are looked at.
PacketList demux_window(Container& container, int stream, const TimeWindow& window);

}  // namespace spdl
