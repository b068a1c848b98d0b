#include "ffmpeg/libav.h"

#include <algorithm>
#include <string_view>

#include "core/errors.h"

namespace spdl {
namespace {

template <typename Owner>
Owner checked(Owner object) {
    require_memory(object != nullptr);
    return object;
}

}  // namespace

PacketPtr make_packet() {
    return checked(PacketPtr(av_packet_alloc()));
}

CodecParametersPtr make_parameters() {
    CodecParametersPtr parameters(avcodec_parameters_alloc());
    require_memory(parameters != nullptr);
    return parameters;
}

FramePtr make_frame() {
    return checked(FramePtr(av_frame_alloc()));
}

FramePtr reference(const AVFrame& frame) {
    return checked(FramePtr(av_frame_clone(&frame)));
}

PacketPtr reference(const AVPacket& packet) {
    return checked(PacketPtr(av_packet_clone(&packet)));
}

LibavOptions::LibavOptions(const OptionList& options) {
    for (const auto& [key, value] : options) {
        set(key.c_str(), value.c_str());
    }
}

void LibavOptions::set(const char* key, const char* value) {
    require_memory(av_dict_set(&entries_, key, value, 0) >= 0);
}

void LibavOptions::check_all_used(const char* kind, const char* name) const {
    if (const AVDictionaryEntry* entry = av_dict_get(entries_, "", nullptr, AV_DICT_IGNORE_SUFFIX)) {
        throw MediaError(std::string("the ") + kind + " \"" + name + "\" has no option \"" + entry->key +
                         "\" (set to \"" + entry->value + "\")");
    }
}

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

namespace {

bool is_sane(std::int64_t time) {
    return time >= -kMaxTime && time <= kMaxTime;
}

std::string describe(std::int64_t time, AVRational unit) {
    return std::to_string(time) + " x " + std::to_string(unit.num) + "/" + std::to_string(unit.den) + " s";
}

}  // namespace

void check_time(std::int64_t time, const char* what) {
    if (time != AV_NOPTS_VALUE && !is_sane(time)) {
        throw MediaError(std::string(what) + " is " + std::to_string(time) +
                         " units, which no clip can have: at most 2**60 are taken, before or after 0");
    }
}

std::int64_t clock_period(const AVStream& stream) {
    constexpr int kMostBits = 40;  // In milliseconds, a lifetime.
    const int bits = stream.pts_wrap_bits;
    return bits > 0 && bits <= kMostBits ? std::int64_t{1} << bits : 0;
}

std::int64_t rescale_time(std::int64_t time, AVRational from, AVRational to) {
    // libav returns the least number if none exists for the result.
    const std::int64_t found = is_sane(time) ? av_rescale_q(time, from, to) : AV_NOPTS_VALUE;
    if (!is_sane(found)) {
        throw MediaError("the time of a frame, " + describe(time, from) + ", is one that no clip can have: at most " +
                         "2**60 units of " + std::to_string(to.num) + "/" + std::to_string(to.den) +
                         " s are taken, before or after 0");
    }
    return found;
}

}  // namespace spdl
