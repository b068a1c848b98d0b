#include "core/file_boxes.h"

namespace spdl {
namespace {

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string_view BoxReader::take_text() {
    const std::string_view all = text(rest_);
    const std::string_view taken = all.substr(0, all.find('\0'));
    skip(taken.size() + 1);
    return taken;
}

std::optional<FileBox> take_box(Bytes& boxes) {
    BoxReader reader(boxes);
    std::uint64_t size = reader.take(4);
    std::size_t header = 8;
    if (boxes.size() < header) {
        return std::nullopt;
    }
    if (size == 1) {
        reader.skip(4);
        size = reader.take(8);
        header = 16;
    } else if (size == 0) {
        size = boxes.size();
    }
    if (size < header || size > boxes.size()) {
        return std::nullopt;
    }
    const FileBox box{text(boxes.subspan(4, 4)), boxes.subspan(header, static_cast<std::size_t>(size) - header)};
    boxes = boxes.subspan(static_cast<std::size_t>(size));
    return box;
}

Bytes find_box(Bytes boxes, std::string_view name) {
    while (const auto box = take_box(boxes)) {
        if (box->name == name) {
            return box->content;
        }
    }
    return {};
}

}  // namespace spdl
