#include "image/tiff/tiff_pages.h"

#include <optional>
#include <string>
#include <unordered_set>

#include "core/media_error.h"
#include "core/tiff_directory.h"
#include "media/image_format.h"

namespace spdl {
namespace {

TiffLayout layout_of(Bytes bytes) {
    const ImageFormat format = image_format(bytes);
    if (format == ImageFormat::kUnknown) {
        throw MediaError("cannot read its pages: " + describe_unknown_format(bytes));
    }
    const std::optional<TiffLayout> layout = TiffLayout::of(bytes);
    if (!layout) {
        throw MediaError("cannot read its pages: only a TIFF has pages, and this is " +
                         std::string(format_name(format)) + ". Leave `pages` out for its first picture");
    }
    return *layout;
}

}  // namespace

std::vector<std::uint64_t> tiff_pages(Bytes bytes, std::size_t most) {
    std::vector<std::uint64_t> pages;
    std::unordered_set<std::uint64_t> known;
    std::uint64_t at = layout_of(bytes).first_directory(bytes);
    if (at == 0) {
        throw MediaError("cannot read the TIFF: it has no page");
    }
    while (at != 0 && pages.size() < most) {
        const std::optional<std::uint64_t> next = TiffDirectory::at(bytes, at)->next();
        if (!next) {
            throw MediaError("cannot read the TIFF: the directory of page " + std::to_string(pages.size()) +
                             " does not lie within the file, which may be truncated");
        }
        pages.push_back(at);
        known.insert(at);
        at = known.contains(*next) ? 0 : *next;
    }
    return pages;
}

}  // namespace spdl
