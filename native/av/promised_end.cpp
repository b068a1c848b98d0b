#include "av/promised_end.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "av/file_peek.h"
#include "av/mp4_boxes.h"
#include "core/file_boxes.h"
#include "core/little_endian.h"

namespace spdl {
namespace {

// A file that has more parts on its outermost level is not looked at to its end.
constexpr int kMostParts = 100'000;

// The index of MP4 tells where each packet is.
bool lacks_packets(AVFormatContext& context, std::int64_t size) {
    for (unsigned i = 0; i < context.nb_streams; ++i) {
        AVStream* const stream = context.streams[i];
        const int count = stream->discard == AVDISCARD_ALL ? 0 : avformat_index_get_entries_count(stream);
        for (int entry = 0; entry < count; ++entry) {
            const AVIndexEntry* const packet = avformat_index_get_entry(stream, entry);
            if (packet->size > 0 && packet->pos > size - packet->size) {
                return true;
            }
        }
    }
    return false;
}

// The index of MP4, or of a fragment of it, is in a box that may be cut itself.
bool has_cut_index(Peek file) {
    return find_box_where(file, [](const PlacedBox& box) { return !box.whole && (box.is("moov") || box.is("moof")); });
}

// Where an element of Matroska begins after its header, and where it ends; nothing if that is not known.
struct Element {
    std::uint64_t id;
    std::int64_t begin;
    std::optional<std::uint64_t> size;
};

std::optional<Element> read_element(Peek& file, std::int64_t position) {
    std::array<std::uint8_t, 12> head{};
    if (!file.read(position, head)) {
        return std::nullopt;
    }
    const int id_bytes = std::countl_zero(head[0]) + 1;
    constexpr int kMostOfId = 4;
    if (id_bytes > kMostOfId) {
        return std::nullopt;
    }
    const int size_bytes = std::countl_zero(head[static_cast<std::size_t>(id_bytes)]) + 1;
    constexpr int kMostOfSize = 8;
    if (size_bytes > kMostOfSize) {
        return std::nullopt;
    }
    const std::uint64_t open = (std::uint64_t{1} << (7 * size_bytes)) - 1;
    BoxReader numbers(head);
    const std::uint64_t id = numbers.take(static_cast<std::size_t>(id_bytes));
    const std::uint64_t size = numbers.take(static_cast<std::size_t>(size_bytes)) & open;
    return Element{id, position + id_bytes + size_bytes, size == open ? std::nullopt : std::optional(size)};
}

// Calls `visit` with each element on the outermost level, up to one whose end is not in the file or not known. Returns
// whether it returned true, which ends this.
template <typename Visit>
bool find_element_where(Peek& file, Visit visit) {
    std::int64_t position = 0;
    for (int i = 0; i < kMostParts; ++i) {
        const std::optional<Element> element = read_element(file, position);
        if (!element) {
            return false;
        }
        const bool whole = element->size && *element->size <= static_cast<std::uint64_t>(file.size() - element->begin);
        if (visit(*element, whole)) {
            return true;
        }
        if (!whole) {
            return false;
        }
        position = element->begin + static_cast<std::int64_t>(*element->size);
    }
    return false;
}

constexpr std::uint64_t kSegment = 0x18538067;

bool has_cut_segment(Peek file) {
    return find_element_where(
        file, [](const Element& element, bool whole) { return element.id == kSegment && element.size && !whole; });
}

// A live stream does not say where its segment ends.
bool may_have_several_segments(Peek file) {
    int count = 0;
    return find_element_where(file, [&](const Element& element, bool /*whole*/) {
        count += element.id == kSegment ? 1 : 0;
        return count > 1 || !element.size;
    });
}

bool has_several_headers(Peek file) {
    int count = 0;
    return find_box_where(file, [&](const PlacedBox& box) {
        count += box.is("moov") ? 1 : 0;
        return count > 1;
    });
}

// Packets of AVI are in a list in each RIFF of the file.
bool has_cut_list(Peek file) {
    // What was written without going back has no sizes, or the largest.
    constexpr std::uint32_t kOpen = 0x7FFFF000;
    std::array<std::uint8_t, 12> head{};
    std::int64_t position = 0;
    std::int64_t riff_end = 0;
    for (int i = 0; i < kMostParts && file.read(position, head); ++i) {
        const std::uint32_t size = load_le<std::uint32_t>(head.data() + 4);
        const std::int64_t end = position + 8 + size + (size & 1);
        if (size == 0 || size >= kOpen) {
            return false;
        }
        if (position >= riff_end) {
            if (!is(head.data(), "RIFF")) {
                return false;
            }
            riff_end = end;
            position += static_cast<std::int64_t>(head.size());
            continue;
        }
        if (is(head.data(), "LIST") && is(head.data() + 8, "movi") && position + 8 + size > file.size()) {
            return true;
        }
        position = end;
    }
    return false;
}

// Each tag of Flash video is followed by its size.
bool has_cut_tag(Peek file) {
    constexpr std::int64_t kHead = 11;
    std::array<std::uint8_t, 4> size{};
    std::array<std::uint8_t, kHead> head{};
    const auto length = [&] { return static_cast<std::int64_t>(BoxReader(Bytes(head).subspan(1)).take(3)); };
    const std::int64_t last = file.size() - static_cast<std::int64_t>(size.size());
    if (file.read(last, size)) {
        const auto whole = static_cast<std::int64_t>(BoxReader(size).take(4));
        if (whole >= kHead && whole <= last && file.read(last - whole, head) && length() == whole - kHead) {
            return false;
        }
    }
    // Not every writer adds the last size.
    std::int64_t position = 9 + static_cast<std::int64_t>(size.size());
    for (int i = 0; i < kMostParts; ++i) {
        if (!file.read(position, head)) {
            return position < file.size();
        }
        const std::int64_t end = position + kHead + length();
        if (end >= file.size()) {
            return end > file.size();
        }
        position = end + static_cast<std::int64_t>(size.size());
    }
    return false;
}

// A page of Ogg has at most 255 segments of at most 255 bytes.
bool has_cut_page(Peek file) {
    constexpr std::int64_t kHead = 27;
    constexpr std::int64_t kMost = kHead + 255 + 255 * 255;
    std::array<std::uint8_t, kHead> head{};
    std::array<std::uint8_t, 1> segment{};
    for (std::int64_t position = file.size() - 1; position >= std::max<std::int64_t>(file.size() - kMost, 0);
         --position) {
        std::array<std::uint8_t, 5> capture{};
        if (!file.read(position, segment) || segment[0] != 'O' || !file.read(position, capture) ||
            !is(capture.data(), std::string_view("OggS\0", 5))) {
            continue;
        }
        if (!file.read(position, head)) {
            return true;
        }
        std::int64_t end = position + kHead + head.back();
        for (int i = 0; i < head.back(); ++i) {
            if (!file.read(position + kHead + i, segment)) {
                return true;
            }
            end += segment[0];
        }
        return end > file.size();
    }
    return false;
}

}  // namespace

bool has_fragments(AVIOContext& input, std::int64_t size) {
    Peek file(input, size);
    return find_box_where(file, [](const PlacedBox& box) { return box.is("moof"); });
}

bool may_be_several(AVFormatContext& context, std::int64_t size) {
    const std::string_view format = context.iformat->name;
    return format.find("mp4") != std::string_view::npos ? has_several_headers({*context.pb, size})
                                                        : may_have_several_segments({*context.pb, size});
}

bool ends_early(AVFormatContext& context, std::int64_t size) {
    if (size <= 0 || context.pb == nullptr) {
        return false;
    }
    const std::string_view format = context.iformat->name;
    if (format.find("mp4") != std::string_view::npos) {
        return lacks_packets(context, size) || has_cut_index({*context.pb, size});
    }
    if (format.find("matroska") != std::string_view::npos) {
        return has_cut_segment({*context.pb, size});
    }
    if (format == "flv") {
        return has_cut_tag({*context.pb, size});
    }
    if (format == "ogg") {
        return has_cut_page({*context.pb, size});
    }
    return format == "avi" && has_cut_list({*context.pb, size});
}

}  // namespace spdl
