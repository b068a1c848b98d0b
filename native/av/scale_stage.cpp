#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "av/scaling.h"
#include "core/errors.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/frames.h"

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

// One plane of a picture: how many bytes a sample takes, and how many columns and rows share it, as a power of two.
struct PlaneForm {
    int index;
    int bytes;
    int shift;
};

std::span<const PlaneForm> planes_of(const AVFrame& picture) {
    static constexpr PlaneForm kRgb[] = {{0, 3, 0}};
    static constexpr PlaneForm kYuv[] = {{0, 1, 0}, {1, 1, 1}, {2, 1, 1}};
    return picture.format == AV_PIX_FMT_RGB24 ? std::span<const PlaneForm>(kRgb) : kYuv;
}

// The place of a box on a plane. It begins at even columns and rows if these share samples.
Box on_plane(const Box& box, const PlaneForm& plane) {
    const int more = (1 << plane.shift) - 1;
    return {box.left >> plane.shift, box.top >> plane.shift, (box.right + more) >> plane.shift,
            (box.bottom + more) >> plane.shift};
}

std::uint8_t* sample(const AVFrame& frame, const PlaneForm& plane, int x, int y) {
    return frame.data[plane.index] + static_cast<std::ptrdiff_t>(y) * frame.linesize[plane.index] +
           static_cast<std::ptrdiff_t>(x) * plane.bytes;
}

// Calls `use` with each row of a box, of both pictures, and the number of its bytes. Stops if it returns false.
template <typename Use>
bool each_row(const AVFrame& a, const AVFrame& b, const Box& box, const Use& use) {
    for (const PlaneForm& plane : planes_of(a)) {
        const Box part = on_plane(box, plane);
        for (int y = part.top; part.left < part.right && y < part.bottom; ++y) {
            if (!use(sample(a, plane, part.left, y), sample(b, plane, part.left, y),
                     static_cast<std::size_t>(part.size().width * plane.bytes))) {
                return false;
            }
        }
    }
    return true;
}

void copy_pixels(const AVFrame& from, AVFrame& to, const Box& box) {
    each_row(from, to, box, [](const std::uint8_t* row, std::uint8_t* copy, std::size_t bytes) {
        std::memcpy(copy, row, bytes);
        return true;
    });
}

bool same_pixels(const AVFrame& a, const AVFrame& b) {
    return each_row(a, b, whole({a.width, a.height}),
                    [](const std::uint8_t* row, const std::uint8_t* other, std::size_t bytes) {
                        return std::memcmp(row, other, bytes) == 0;
                    });
}

// Returns whether the filters set the same properties, which the form of a frame does not tell.
bool same_properties(const AVFrame& a, const AVFrame& b) {
    return a.sample_aspect_ratio.num == b.sample_aspect_ratio.num &&
           a.sample_aspect_ratio.den == b.sample_aspect_ratio.den && a.color_primaries == b.color_primaries &&
           a.color_trc == b.color_trc && a.chroma_location == b.chroma_location;
}

// As the filter crop finds the middle.
int middle(int from, int to) {
    return static_cast<int>(std::lrint((from - to) / 2.0));
}

// Returns the form of the scaling that a description asks for, if a SwsScaler may do it.
std::optional<SwsScaler::Form> form_of(const AVFrame& frame, Size to, const ScaleDescription& description) {
    const bool kept = description.format == AV_PIX_FMT_NONE;
    const auto format = kept ? static_cast<AVPixelFormat>(frame.format) : description.format;
    return SwsScaler::form_of(frame, to, format, description.interpolation);
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
    // Filters that continue a video must know the end of a window, which only a common graph provides.
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

ScaleStage::ScaleStage(const AVFrame& first, AVRational time_base, AVRational frame_rate, ScaleDescription description,
                       const std::string& whole)
    : description_(std::move(description)),
      filters_(first, time_base, frame_rate, description_.scale, whole),
      scaled_(filters_.size_behind("scale")) {}

bool ScaleStage::may_take(const AVFrame& first, const ScaleDescription& description) {
    // The size that pictures are scaled to may depend on their own; any other size will do to ask.
    return form_of(first, {2, first.height + 1}, description).has_value();
}

bool ScaleStage::may_be_fast(const AVFrame& first) const {
    const auto form = form_of(first, scaled_, description_);
    // One that was made before and gives something else than the filters will not be used.
    return form && SwsScaler::known(*form) != std::shared_ptr<const SwsScaler>();
}

FramePtr ScaleStage::filter(FramePtr frame) {
    filters_.add(std::move(frame));
    FramePtr filtered = filters_.get();
    if (!filtered) {
        throw MediaError("cannot scale the picture: the filters give none");
    }
    return filtered;
}

// Finds where the scaled picture lies on what the filters give. Returns whether that can be.
bool ScaleStage::place(const AVFrame& filtered, AVPixelFormat format) {
    // If two columns and two rows share their chroma, the filters keep them together.
    const auto step = [&](int distance) { return format == AV_PIX_FMT_RGB24 ? distance : distance / 2 * 2; };
    Size canvas = scaled_;
    int x = 0;
    int y = 0;
    if (description_.pad) {
        const Size size{description_.pad->width == 0 ? canvas.width : description_.pad->width,
                        description_.pad->height == 0 ? canvas.height : description_.pad->height};
        x = step((size.width - canvas.width) / 2);
        y = step((size.height - canvas.height) / 2);
        canvas = size;
    }
    for (const std::optional<Size>& crop : {description_.crop, description_.center}) {
        if (crop) {
            x -= step(middle(canvas.width, crop->width));
            y -= step(middle(canvas.height, crop->height));
            canvas = *crop;
        }
    }
    left_ = std::max(x, 0);
    top_ = std::max(y, 0);
    part_ = {left_ - x, top_ - y, std::min(scaled_.width, canvas.width - x),
             std::min(scaled_.height, canvas.height - y)};
    // Beside a picture with an odd side, the filters pad over its last chroma, too.
    const bool shares = description_.pad && format != AV_PIX_FMT_RGB24 && (scaled_.width | scaled_.height) % 2 != 0;
    return !shares && filtered.format == format && Size{filtered.width, filtered.height} == canvas &&
           part_.left < part_.right && part_.top < part_.bottom;
}

FramePtr ScaleStage::run(FramePtr frame) {
    const SwsScaler* const scaler = by_filters_ ? nullptr : fast_.find(form_of(*frame, scaled_, description_));
    if (scaler == nullptr) {
        return filter(std::move(frame));
    }
    if (sample_) {
        return same_properties(*frame, *sampled_of_) ? scale(*frame, *scaler) : filter(std::move(frame));
    }
    FramePtr filtered = filter(reference(*frame));
    sample_ = reference(*filtered);
    sampled_of_ = make_frame();
    require_memory(av_frame_copy_props(sampled_of_.get(), frame.get()) >= 0);
    by_filters_ = !place(*filtered, scaler->form().to_format) || !same_pixels(*scale(*frame, *scaler), *filtered);
    return filtered;
}

FramePtr ScaleStage::scale(const AVFrame& frame, const SwsScaler& scaler) {
    FramePtr made = make_frame();
    made->format = sample_->format;
    made->width = sample_->width;
    made->height = sample_->height;
    allocate_picture(*made);
    require_memory(av_frame_copy_props(made.get(), &frame) >= 0);
    made->sample_aspect_ratio = sample_->sample_aspect_ratio;
    made->colorspace = sample_->colorspace;
    made->color_range = sample_->color_range;
    made->color_primaries = sample_->color_primaries;
    made->color_trc = sample_->color_trc;
    made->chroma_location = sample_->chroma_location;
    const int right = left_ + part_.right - part_.left;
    const int bottom = top_ + part_.bottom - part_.top;
    copy_pixels(*sample_, *made, {0, 0, made->width, top_});
    copy_pixels(*sample_, *made, {0, top_, left_, bottom});
    copy_pixels(*sample_, *made, {right, top_, made->width, bottom});
    copy_pixels(*sample_, *made, {0, bottom, made->width, made->height});
    scaler.scale(frame, part_, *made, left_, top_, fast_.scratch());
    return made;
}

}  // namespace spdl
