#include "ffmpeg/ffmpeg_log.h"

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::size_t kMostLines = 1000;

std::atomic<int> kept_level{AV_LOG_FATAL};

// Never destroyed: FFmpeg's threads may log while the process ends.
struct Waiting {
    std::mutex mutex;
    LogLines content;
};
Waiting& waiting = *new Waiting;

void put_log_line(int level, std::string text) {
    const std::scoped_lock lock(waiting.mutex);
    if (waiting.content.lines.size() < kMostLines) {
        waiting.content.lines.push_back({level, std::move(text)});
    } else {
        ++waiting.content.lost;
    }
    log_lines_wait.store(true, std::memory_order_relaxed);
}

thread_local FfmpegLog* listener = nullptr;

// FFmpeg logs some lines piece by piece; only the last piece ends with a newline. Needs no destructor: what else
// belongs to a thread may log when the thread ends.
class Unfinished {
  public:
    // Adds a piece, and returns the whole line if this ends it; otherwise an empty text. A text that is too long is
    // cut.
    std::string_view add(std::string_view piece, bool ends) {
        size_ += piece.copy(text_ + size_, sizeof(text_) - size_);
        return ends ? std::string_view(text_, std::exchange(size_, 0)) : std::string_view();
    }

  private:
    char text_[2048];
    std::size_t size_ = 0;
};

thread_local Unfinished unfinished;

// Whether what was logged last is continued by the next piece.
thread_local bool goes_on = false;

std::string_view without_end(std::string_view line) {
    const std::size_t last = line.find_last_not_of("\n\r ");
    return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

void on_log(void* context, int level, const char* format, std::va_list arguments) {
    // Higher bits tell terminals a colour.
    const int severity = level < 0 ? level : level & 0xff;
    const bool heard = listener != nullptr && severity <= AV_LOG_ERROR;
    const bool kept = severity <= log_level();
    if (!heard && !kept) {
        return;
    }
    // av_log_format_line2 also looks at the context's parent. FFmpeg before 7 logs a wrong flag of scale with a context
    // that has none, and it would crash there.
    char line[1024];
    const AVClass* const kind = context == nullptr ? nullptr : *static_cast<const AVClass* const*>(context);
    const bool continues = goes_on;
    const int prefix =
        kind == nullptr || continues ? 0 : std::snprintf(line, sizeof(line), "[%s] ", kind->item_name(context));
    const std::size_t used = std::min(static_cast<std::size_t>(std::max(prefix, 0)), sizeof(line) - 1);
    const int size = std::vsnprintf(line + used, sizeof(line) - used, format, arguments);
    const bool whole = size < 0 || static_cast<std::size_t>(size) < sizeof(line) - used;
    // If the end was cut off, it is likely to have been one.
    const bool ends = !whole || std::string_view(line).ends_with('\n');
    goes_on = !ends;
    if (listener != nullptr && listener->leaves_out(line)) {
        return;
    }
    try {
        if (heard) {
            listener->hear(line, continues);
        }
        if (kept) {
            const std::string_view text = unfinished.add(line, ends);
            if (const std::string_view shown = without_end(text); !shown.empty()) {
                put_log_line(severity, std::string(shown));
            }
        }
    } catch (const std::bad_alloc&) {
        // The log and the exception that follows have to do without the line.
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

// Returns whether FFmpeg did not find one of its parts by name. For filters, releases before 6 say so only in the log.
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

LogLines fetch_log_lines() {
    const std::scoped_lock lock(waiting.mutex);
    log_lines_wait.store(false, std::memory_order_relaxed);
    return std::exchange(waiting.content, {});
}

int log_level() {
    return kept_level.load(std::memory_order_relaxed);
}

void set_log_level(int level) {
    kept_level.store(level, std::memory_order_relaxed);
}

FfmpegLog::FfmpegLog(Kept kept) : outer_(listener), kept_(kept) {
    listener = this;
    // A line that an earlier call has left open would take away the name in front of the first one.
    goes_on = false;
}

FfmpegLog::~FfmpegLog() {
    listener = outer_;
}

bool FfmpegLog::leaves_out(std::string_view line) const {
    return std::ranges::any_of(left_out_, [&](std::string_view words) { return line.find(words) != line.npos; });
}

void FfmpegLog::hear(const char* line, bool continues) {
    if (const Size size = picture_size(line); size != Size()) {
        refused_size_ = size;
    }
    std::string words = line;
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) {
        words.pop_back();
    }
    if (words.empty()) {
        return;
    }
    // Some lines repeat bytes of a file, of which Python could make no text.
    if (!is_utf8({reinterpret_cast<const std::uint8_t*>(words.data()), words.size()})) {
        constexpr unsigned char kLastOfAscii = 0x7f;
        std::ranges::replace_if(words, [](unsigned char byte) { return byte > kLastOfAscii; }, '?');
    }
    if (continues && !line_.empty()) {
        line_ += " " + words;
    } else if (line_.empty() || kept_ == Kept::kLast) {
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
