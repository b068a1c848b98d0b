#pragma once

#include <string>

#include "core/geometry.h"
#include "ffmpeg/libav.h"

namespace spdl {

// While one is alive, what libav logs as an error on this thread is kept instead of printed, for the message of the
// exception that follows. Other threads, and other users of the same libav, print as before.
class FfmpegLog {
  public:
    // Which of several lines is kept. As a rule the last says what went wrong; of a filter description it is the first,
    // and what follows says where.
    enum class Kept { kLast, kFirst };

    explicit FfmpegLog(Kept kept = Kept::kLast);
    ~FfmpegLog();
    FfmpegLog(const FfmpegLog&) = delete;
    FfmpegLog& operator=(const FfmpegLog&) = delete;

    // Throws MediaError: what was tried, libav's text for `code`, and the log line it kept.
    [[noreturn]] void raise(const std::string& what, int code) const;

    // Raises where `code` is negative, as libav's functions return errors; otherwise returns it. What was tried is put
    // together only then.
    int check(int code, const char* what, const char* name = "") const {
        if (code < 0) {
            raise(std::string(what) + name, code);
        }
        return code;
    }

    // The size of the picture that libav has refused, which it says in words alone; 0x0 where it has not.
    [[nodiscard]] Size refused_size() const { return refused_size_; }

    void hear(const char* line);

  private:
    FfmpegLog* outer_;
    Kept kept_;
    std::string line_;
    Size refused_size_;
};

// Installs the log callback; once, when the module is loaded.
void install_log_callback();

}  // namespace spdl
