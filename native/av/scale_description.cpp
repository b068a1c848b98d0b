#include "av/scale_description.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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

// Returns the value of an option if the text gives it that name.
std::optional<std::string_view> value_of(std::string_view option, std::string_view name) {
    if (!option.starts_with(name) || option.size() <= name.size() || option[name.size()] != '=') {
        return std::nullopt;
    }
    return option.substr(name.size() + 1);
}

// Returns the options of a filter, if this is one of that name.
std::vector<std::string_view> options_of(std::string_view filter, std::string_view name) {
    const auto options = value_of(filter, name);
    return options ? split(*options, ':') : std::vector<std::string_view>();
}

bool chooses_frames(std::string_view filter) {
    if (const auto rate = value_of(filter, "fps")) {
        const std::vector<std::string_view> sides = split(*rate, '/');
        return sides.size() == 2 && number(sides[0]).value_or(0) > 0 && number(sides[1]).value_or(0) > 0;
    }
    const std::vector<std::string_view> bounds = options_of(filter, "trim");
    return !bounds.empty() && std::ranges::all_of(bounds, [](std::string_view bound) {
        const auto start = value_of(bound, "start");
        const auto end = value_of(bound, "end");
        return (start && is_decimal(*start)) || (end && is_decimal(*end));
    });
}

bool follows(std::string_view filter) {
    if (const auto bounds = options_of(filter, "trim"); bounds.size() == 1) {
        const auto end = value_of(bounds[0], "end_frame");
        return end && number(*end);
    }
    return filter == "tpad=stop=-1:stop_mode=clone" || filter == "hflip" || filter == "vflip";
}

// Returns the size that two options say.
std::optional<Size> size_of(std::span<const std::string_view> options) {
    const auto width = value_of(options[0], "w");
    const auto height = value_of(options[1], "h");
    const auto across = width ? number(*width) : std::nullopt;
    const auto down = height ? number(*height) : std::nullopt;
    return across && down ? std::optional(Size{*across, *down}) : std::nullopt;
}

std::optional<Interpolation> interpolation_of(std::string_view flags) {
    for (const auto& [name, interpolation] : {std::pair{"neighbor", Interpolation::kNearest},
                                              {"area", Interpolation::kArea},
                                              {"bilinear", Interpolation::kBilinear},
                                              {"bicubic", Interpolation::kBicubic},
                                              {"lanczos", Interpolation::kLanczos}}) {
        if (flags == name) {
            return interpolation;
        }
    }
    return std::nullopt;
}

bool read_scale(std::string_view filter, ScaleDescription& found) {
    const std::vector<std::string_view> options = options_of(filter, "scale");
    if (options.size() < 3 || options.size() > 4 || !size_of(options)) {
        return false;
    }
    const auto flags = value_of(options[2], "flags");
    const auto interpolation = flags ? interpolation_of(*flags) : std::nullopt;
    if (!interpolation || (options.size() == 4 && !value_of(options[3], "force_original_aspect_ratio"))) {
        return false;
    }
    found.interpolation = *interpolation;
    return true;
}

std::optional<Size> read_pad(std::string_view filter) {
    const std::vector<std::string_view> options = options_of(filter, "pad");
    if (options.size() != 5 || options[2] != "x=-1" || options[3] != "y=-1" || !value_of(options[4], "color")) {
        return std::nullopt;
    }
    return size_of(options);
}

std::optional<Size> read_crop(std::string_view filter) {
    const std::vector<std::string_view> options = options_of(filter, "crop");
    const std::optional<Size> size = options.size() == 2 ? size_of(options) : std::nullopt;
    return size && size->width > 0 && size->height > 0 ? size : std::nullopt;
}

void append(std::string& text, std::string_view filter) {
    text += text.empty() ? "" : ",";
    text += filter;
}

}  // namespace

std::optional<ScaleDescription> parse_scale_description(const std::string& description) {
    if (description.find_first_of("'\\[];@ ") != std::string::npos) {
        return std::nullopt;
    }
    const std::vector<std::string_view> filters = split(description, ',');
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
    constexpr std::string_view kFormat = "format=pix_fmts=rgb24";
    append(found.scale, kFormat);
    for (; at < filters.size() && follows(filters[at]); ++at) {
        append(found.after, filters[at]);
    }
    // What continues a video has to know where a window ended, which only a graph of both tells.
    if (found.before.find("trim") != std::string::npos && found.after.find("tpad") != std::string::npos) {
        return std::nullopt;
    }
    return at + 1 == filters.size() && filters[at] == kFormat ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace spdl
