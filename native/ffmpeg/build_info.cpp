#include "ffmpeg/build_info.h"

#include <algorithm>
#include <string_view>

#include "ffmpeg/libav.h"

namespace spdl {
namespace {

std::tuple<unsigned, unsigned, unsigned> parts(unsigned version) {
    return {AV_VERSION_MAJOR(version), AV_VERSION_MINOR(version), AV_VERSION_MICRO(version)};
}

}  // namespace

std::vector<std::pair<std::string, std::tuple<unsigned, unsigned, unsigned>>> ffmpeg_versions() {
    return {
        {"libavcodec", parts(avcodec_version())},       {"libavfilter", parts(avfilter_version())},
        {"libavformat", parts(avformat_version())},     {"libavutil", parts(avutil_version())},
        {"libswresample", parts(swresample_version())}, {"libswscale", parts(swscale_version())},
    };
}

std::string ffmpeg_license() {
    // From the licence that asks least of those who pass the library on to the one that asks most. Unknown licences
    // come last.
    constexpr std::string_view kRank[] = {"LGPL version 2.1", "LGPL version 3", "GPL version 2", "GPL version 3",
                                          "nonfree"};
    const auto rank = [&](std::string_view license) {
        return std::ranges::find_if(kRank, [&](std::string_view known) { return license.starts_with(known); });
    };
    return std::ranges::max({avcodec_license(), avfilter_license(), avformat_license(), avutil_license(),
                             swresample_license(), swscale_license()},
                            {}, [&](std::string_view license) { return rank(license); });
}

std::vector<std::string> ffmpeg_filters() {
    std::vector<std::string> names;
    void* state = nullptr;
    while (const AVFilter* filter = av_filter_iterate(&state)) {
        names.emplace_back(filter->name);
    }
    std::ranges::sort(names);
    return names;
}

std::string remedy_for_missing_part() {
    return std::string("spdl-turbo runs here on FFmpeg ") + av_version_info() + ", " + ffmpeg_license() +
           ", which was built without it. To run on an FFmpeg that has it, build spdl-turbo on that one: "
           "pip install --force-reinstall --no-deps --no-binary spdl-turbo spdl-turbo, or in a checkout "
           "pip install --force-reinstall --no-deps .";
}

}  // namespace spdl
