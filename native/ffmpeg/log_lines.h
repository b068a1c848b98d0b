#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace spdl {

// What FFmpeg logs, until somebody fetches it. FFmpeg may log on any thread, its own included, in the middle of a call
// and with locks held. So a line is only put aside: whoever logs never waits for Python. Of a flood the first lines are
// kept, and the others counted.

struct LogLine {
    int level;
    std::string text;
};

struct LogLines {
    std::vector<LogLine> lines;
    std::size_t lost = 0;
};

inline std::atomic<bool> log_lines_wait{false};

void put_log_line(int level, std::string text);
LogLines fetch_log_lines();

// The level up to which lines are kept, as libav numbers them: AV_LOG_FATAL at first.
int log_level();
void set_log_level(int level);

}  // namespace spdl
