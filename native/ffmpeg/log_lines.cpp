#include "ffmpeg/log_lines.h"

#include <mutex>
#include <utility>

#include "ffmpeg/libav.h"

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

}  // namespace

void put_log_line(int level, std::string text) {
    const std::scoped_lock lock(waiting.mutex);
    if (waiting.content.lines.size() < kMostLines) {
        waiting.content.lines.push_back({level, std::move(text)});
    } else {
        ++waiting.content.lost;
    }
    log_lines_wait.store(true, std::memory_order_relaxed);
}

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

}  // namespace spdl
