#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/geometry.h"
#include "core/non_copyable.h"
#include "ffmpeg/libav.h"

namespace spdl {

// FFmpeg's log lines, until they are fetched. FFmpeg may log on any thread, its own included, in the middle of a call
// and with locks held. So a line is only put aside: logging never waits for Python. In a flood the first lines are
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

LogLines fetch_log_lines();

// The level up to which lines are kept, as libav numbers them: AV_LOG_FATAL at first.
int log_level();
void set_log_level(int level);

// The FFmpeg log of the current thread. While an object of this class is alive, errors that libav logs on this thread
// are kept for the message of the exception that follows. Whatever the thread, lines up to the level that users have
// set are also put aside for Python, and nothing is printed.
class FfmpegLog : NonCopyable {
  public:
    // Which of several lines is kept. Usually the last line says what went wrong. For a filter description it is the
    // first, and the lines after it say where.
    enum class Kept { kLast, kFirst };

    explicit FfmpegLog(Kept kept = Kept::kLast);
    ~FfmpegLog();

    // Throws a MediaError of what was tried, libav's text for `code`, and the line that was kept.
    [[noreturn]] void raise(const std::string& what, int code) const;

    // Raises if `code` is negative, as libav's functions return errors; otherwise returns it. The text of what was
    // tried is put together only for an error.
    int check(int code, const char* what, const char* name = "") const {
        if (code < 0) {
            raise(std::string(what) + name, code);
        }
        return code;
    }

    // Returns the line that was kept; "" if none exists.
    [[nodiscard]] const std::string& line() const { return line_; }

    // Returns the size of the picture that libav has refused, which only its log tells; 0x0 if it has refused none.
    [[nodiscard]] Size refused_size() const { return refused_size_; }

    // Has lines with these words ignored from now on. The text must live as long as the object.
    void leave_out(std::string_view words) { left_out_.push_back(words); }
    [[nodiscard]] bool leaves_out(std::string_view line) const;

    // Takes a line, or a piece that continues the one before.
    void hear(const char* line, bool continues);

  private:
    FfmpegLog* outer_;
    std::vector<std::string_view> left_out_;
    Kept kept_;
    std::string line_;
    Size refused_size_;
};

// Installs the log callback. Every program calls it once, at its start.
void install_log_callback();

}  // namespace spdl
