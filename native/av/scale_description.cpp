#include "av/scale_description.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "ffmpeg/named_options.h"

namespace spdl {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = text.find(at);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

// Returns the number that a text stands for, of digits alone.
std::optional<int> number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size() && text.front() != '-';
    return whole ? std::optional(value) : std::nullopt;
}

bool is_decimal(std::string_view text) {
    return !text.empty() && text.size() < 20 && text.find_first_not_of("0123456789.") == std::string_view::npos &&
           std::ranges::count(text, '.') <= 1 && text != ".";
}

// One filter of a description whose options all have names.
class Filter {
  public:
    explicit Filter(std::string_view text) : name_(text.substr(0, text.find('='))) {
        if (name_.size() < text.size()) {
            for (const std::string_view option : split(text.substr(name_.size() + 1), ':')) {
                const std::size_t end = option.find('=');
                options_.emplace_back(option.substr(0, end), option.substr(end + 1));
            }
        }
    }

    // Returns whether this is the filter of that name, with no other options than these.
    [[nodiscard]] bool is(std::string_view name, std::initializer_list<std::string_view> options) const {
        return name_ == name && std::ranges::all_of(options_, [&](const auto& option) {
                   return std::ranges::find(options, option.first) != options.end();
               });
    }

    // Returns the value of an option; "" if it is not given.
    [[nodiscard]] std::string_view get(std::string_view option) const {
        const auto found = std::ranges::find(options_, option, [](const auto& each) { return each.first; });
        return found == options_.end() ? std::string_view() : found->second;
    }

    // Returns the size that the options w and h say as numbers.
    [[nodiscard]] std::optional<Size> size() const {
        const auto width = number(get("w"));
        const auto height = number(get("h"));
        return width && height ? std::optional(Size{*width, *height}) : std::nullopt;
    }

  private:
    std::string_view name_;
    std::vector<std::pair<std::string_view, std::string_view>> options_;
};

bool chooses_frames(std::string_view text) {
    const Filter filter(text);
    if (filter.is("fps", {"fps"})) {
        const std::vector<std::string_view> sides = split(filter.get("fps"), '/');
        // No rate stands for FFmpeg's default.
        return sides[0].empty() || (sides.size() <= 2 && std::ranges::all_of(sides, [](std::string_view side) {
                                        return is_decimal(side) && side.find_first_not_of("0.") != side.npos;
                                    }));
    }
    const auto fits = [](std::string_view bound) { return bound.empty() || is_decimal(bound); };
    return filter.is("trim", {"start", "end"}) && text != "trim" && fits(filter.get("start")) &&
           fits(filter.get("end"));
}

bool follows(std::string_view text) {
    const Filter filter(text);
    if (filter.is("trim", {"end_frame"})) {
        return number(filter.get("end_frame")).has_value();
    }
    return text == "tpad=stop=-1:stop_mode=clone" || text == "hflip" || text == "vflip";
}

std::optional<Interpolation> interpolation_of(std::string_view flags) {
    for (const auto& [name, interpolation] : {std::pair{"neighbor", Interpolation::kNearest},
                                              {"area", Interpolation::kArea},
                                              {"bilinear", Interpolation::kBilinear},
                                              {"bicubic", Interpolation::kBicubic},
                                              {"", Interpolation::kBicubic},
                                              {"lanczos", Interpolation::kLanczos}}) {
        if (flags == name) {
            return interpolation;
        }
    }
    return std::nullopt;
}

bool read_scale(std::string_view text, ScaleDescription& found) {
    const Filter filter(text);
    const auto interpolation = interpolation_of(filter.get("flags"));
    if (!interpolation ||
        !filter.is("scale", {"w", "h", "s", "flags", "force_original_aspect_ratio", "force_divisible_by"})) {
        return false;
    }
    found.interpolation = *interpolation;
    return true;
}

std::optional<Size> read_pad(std::string_view text) {
    const Filter filter(text);
    const auto centered = [](std::string_view place, std::string_view formula) {
        return place == "-1" || place == formula;
    };
    const bool fits = filter.is("pad", {"w", "h", "x", "y", "color"}) && centered(filter.get("x"), "(ow-iw)/2") &&
                      centered(filter.get("y"), "(oh-ih)/2");
    return fits ? filter.size() : std::nullopt;
}

std::optional<Size> read_crop(std::string_view text) {
    const Filter filter(text);
    const std::optional<Size> size = filter.is("crop", {"w", "h"}) ? filter.size() : std::nullopt;
    return size && size->width > 0 && size->height > 0 ? size : std::nullopt;
}

void append(std::string& text, std::string_view filter) {
    text += text.empty() ? "" : ",";
    text += filter;
}

}  // namespace

std::optional<ScaleDescription> parse_scale_description(const std::string& description) {
    const std::string named = with_named_options(description);
    if (named.empty()) {
        return std::nullopt;
    }
    const std::vector<std::string_view> filters = split(named, ',');
    ScaleDescription found;
    std::size_t at = 0;
    for (; at < filters.size() && chooses_frames(filters[at]); ++at) {
        append(found.before, filters[at]);
    }
    if (at == filters.size() || !read_scale(filters[at], found)) {
        return std::nullopt;
    }
    append(found.scale, filters[at++]);
    const auto take = [&](std::optional<Size>& size, std::optional<Size> (*read)(std::string_view)) {
        if (at < filters.size() && (size = read(filters[at]))) {
            append(found.scale, filters[at++]);
        }
    };
    take(found.pad, read_pad);
    if (!found.pad) {
        take(found.crop, read_crop);
    }
    take(found.center, read_crop);
    for (; at < filters.size() && follows(filters[at]); ++at) {
        append(found.after, filters[at]);
    }
    // What continues a video has to know where a window ended, which only a graph of both tells.
    if (found.before.find("trim") != std::string::npos && found.after.find("tpad") != std::string::npos) {
        return std::nullopt;
    }
    // In YUV, pad and vflip together give another last row of an odd picture than one after the other.
    const bool together = found.pad && found.after.find("vflip") != std::string::npos;
    if (at == filters.size()) {
        return together ? std::nullopt : std::optional(std::move(found));
    }
    for (const auto& [text, format] :
         {std::pair{"format=pix_fmts=rgb24", AV_PIX_FMT_RGB24}, {"format=pix_fmts=yuv420p", AV_PIX_FMT_YUV420P}}) {
        if (filters[at] == text && at + 1 == filters.size() && !(together && format == AV_PIX_FMT_YUV420P)) {
            append(found.scale, text);
            found.format = format;
            return found;
        }
    }
    return std::nullopt;
}

}  // namespace spdl
