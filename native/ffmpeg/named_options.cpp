#include "ffmpeg/named_options.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "ffmpeg/libav.h"

namespace spdl {
namespace {

struct FreeText {
    void operator()(char* text) const noexcept { av_free(text); }
};
using Text = std::unique_ptr<char, FreeText>;

constexpr const char* kSpaces = " \n\t\r";

// What FFmpeg knows of the options of a filter.
class KnownOptions {
  public:
    explicit KnownOptions(const AVFilter& filter) : class_(filter.priv_class) {}

    // Returns the option behind this one that has a place of its own; null behind the last. Null stands for the first.
    const AVOption* next(const AVOption* option) const {
        const AVOption* found = option;
        do {
            found = class_ == nullptr ? nullptr : av_opt_next(&class_, found);
        } while (found != nullptr &&
                 (found->type == AV_OPT_TYPE_CONST || (option != nullptr && found->offset == option->offset)));
        return found;
    }

    // Returns the first of the names for the same option; null if there is none.
    const AVOption* find(const std::string& name) const {
        for (const AVOption* option = next(nullptr); option != nullptr; option = next(option)) {
            for (const AVOption* each = option; each != nullptr; each = av_opt_next(&class_, each)) {
                if (each->type != AV_OPT_TYPE_CONST && each->offset == option->offset && name == each->name) {
                    return option;
                }
            }
        }
        return nullptr;
    }

    std::string shortest_name(const AVOption& option) const {
        std::string_view shortest = option.name;
        for (const AVOption* each = &option; each != nullptr; each = av_opt_next(&class_, each)) {
            const bool same = each->type != AV_OPT_TYPE_CONST && each->offset == option.offset;
            if (same && std::string_view(each->name).size() < shortest.size()) {
                shortest = each->name;
            }
        }
        return std::string(shortest);
    }

  private:
    const AVClass* class_;
};

bool is_default(const AVOption& option, const std::string& value) {
    const bool text = option.type == AV_OPT_TYPE_STRING || option.type == AV_OPT_TYPE_COLOR;
    return text && option.default_val.str != nullptr && value == option.default_val.str;
}

// Reads the options of a filter. As in FFmpeg, those without a name come first.
std::optional<std::map<const AVOption*, std::string>> read_options(const KnownOptions& known, const char* text) {
    std::map<const AVOption*, std::string> found;
    const AVOption* place = nullptr;
    bool nameless = true;
    while (*text != '\0') {
        place = nameless ? known.next(place) : nullptr;
        char* key = nullptr;
        char* value = nullptr;
        if (av_opt_get_key_value(&text, "=", ":", place != nullptr ? AV_OPT_FLAG_IMPLICIT_KEY : 0, &key, &value) < 0) {
            return std::nullopt;
        }
        const Text owned_key(key);
        const Text owned_value(value);
        text += *text != '\0' ? 1 : 0;
        nameless = nameless && key == nullptr;
        const AVOption* const option = key == nullptr ? place : known.find(key);
        if (option == nullptr || !found.emplace(option, value).second) {
            return std::nullopt;
        }
    }
    return found;
}

// Returns one filter; "" if it cannot be written.
std::string with_names(const std::string& name, const char* options) {
    const AVFilter* const filter = avfilter_get_by_name(name.c_str());
    if (filter == nullptr) {
        return "";
    }
    const KnownOptions known(*filter);
    const auto found = read_options(known, options);
    if (!found) {
        return "";
    }
    std::string text = name;
    char mark = '=';
    for (const AVOption* option = known.next(nullptr); option != nullptr; option = known.next(option)) {
        const auto given = found->find(option);
        if (given == found->end() || is_default(*option, given->second)) {
            continue;
        }
        if (given->second.find_first_of("'\\[];,:= \n\t\r") != std::string::npos) {
            return "";
        }
        text += mark + known.shortest_name(*option) + "=" + given->second;
        mark = ':';
    }
    return text;
}

// Reads the filter that a text begins with, and goes on to what follows it. Returns "" as with_names() does.
std::string next_filter(const char*& text) {
    const Text name(av_get_token(&text, "=,;["));
    const Text options(name && *text == '=' ? av_get_token(&++text, "[],;") : av_strdup(""));
    text += std::strspn(text, kSpaces);
    return name && options ? with_names(name.get(), options.get()) : "";
}

}  // namespace

std::string with_named_options(const std::string& description) {
    std::string chain;
    for (const char* rest = description.c_str();; ++rest) {
        const std::string filter = next_filter(rest);
        if (filter.empty()) {
            return "";
        }
        chain += (chain.empty() ? "" : ",") + filter;
        if (*rest != ',') {
            return rest == description.c_str() + description.size() ? chain : "";
        }
    }
}

bool begins_with_rgb(const std::string& description) {
    constexpr std::string_view kFormat = "format=pix_fmts=";
    const char* rest = description.c_str();
    const std::string filter = next_filter(rest);
    if (!filter.starts_with(kFormat)) {
        return false;
    }
    for (std::size_t begin = kFormat.size(), end = 0; end != std::string::npos; begin = end + 1) {
        end = filter.find('|', begin);
        const AVPixFmtDescriptor* const format =
            av_pix_fmt_desc_get(av_get_pix_fmt(filter.substr(begin, end - begin).c_str()));
        if (format == nullptr || (format->flags & AV_PIX_FMT_FLAG_RGB) == 0) {
            return false;
        }
    }
    return true;
}

}  // namespace spdl
