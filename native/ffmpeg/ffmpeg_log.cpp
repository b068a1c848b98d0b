#include "ffmpeg/ffmpeg_log.h"

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/build_info.h"

namespace spdl {
namespace {

thread_local FfmpegLog* listener = nullptr;

void on_log(void* context, int level, const char* format, std::va_list arguments) {
    if (listener == nullptr) {
        av_log_default_callback(context, level, format, arguments);
        return;
    }
    if (level > AV_LOG_ERROR) {
        return;
    }
    // av_log_format_line2 also looks at the context's parent. FFmpeg before 7 logs a wrong flag of scale with a context
    // that has none, and it would crash there.
    char line[512];
    const AVClass* const kind = context == nullptr ? nullptr : *static_cast<const AVClass* const*>(context);
    const int prefix = kind == nullptr ? 0 : std::snprintf(line, sizeof(line), "[%s] ", kind->item_name(context));
    const std::size_t used = std::min(static_cast<std::size_t>(std::max(prefix, 0)), sizeof(line) - 1);
    std::vsnprintf(line + used, sizeof(line) - used, format, arguments);
    try {
        listener->hear(line);
    } catch (const std::bad_alloc&) {
        // The exception that follows has to do without the line.
        return;
    }
}

// Returns the size in a line in which libav refuses a picture for its size.
Size picture_size(const char* line) {
    unsigned width = 0;
    unsigned height = 0;
    const char* const words = std::strstr(line, "Picture size ");
    if (words == nullptr || std::sscanf(words, "Picture size %ux%u", &width, &height) != 2) {
        return {};
    }
    constexpr unsigned kLargest = std::numeric_limits<int>::max();
    return {static_cast<int>(std::min(width, kLargest)), static_cast<int>(std::min(height, kLargest))};
}

// Returns whether FFmpeg did not find a part of its own by name. For filters, releases before 6 say so only in the log.
bool is_missing_part(int code, const std::string& words) {
    switch (code) {
        case AVERROR_BSF_NOT_FOUND:
        case AVERROR_DECODER_NOT_FOUND:
        case AVERROR_DEMUXER_NOT_FOUND:
        case AVERROR_ENCODER_NOT_FOUND:
        case AVERROR_FILTER_NOT_FOUND:
        case AVERROR_MUXER_NOT_FOUND:
        case AVERROR_PROTOCOL_NOT_FOUND:
            return true;
        default:
            return words.find("No such filter") != std::string::npos;
    }
}

}  // namespace

FfmpegLog::FfmpegLog(Kept kept) : outer_(listener), kept_(kept) {
    listener = this;
}

FfmpegLog::~FfmpegLog() {
    listener = outer_;
}

void FfmpegLog::hear(const char* line) {
    if (const Size size = picture_size(line); size != Size()) {
        refused_size_ = size;
    }
    std::string words = line;
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) {
        words.pop_back();
    }
    if (!words.empty() && (line_.empty() || kept_ == Kept::kLast)) {
        line_ = std::move(words);
    }
}

void FfmpegLog::raise(const std::string& what, int code) const {
    char text[AV_ERROR_MAX_STRING_SIZE]{};
    av_strerror(code, text, sizeof(text));
    throw MediaError(what + ": " + text + (line_.empty() ? "" : " (FFmpeg: " + line_ + ")") +
                     (is_missing_part(code, line_) ? ". " + remedy_for_missing_part() : ""));
}

void install_log_callback() {
    av_log_set_callback(on_log);
}

}  // namespace spdl
