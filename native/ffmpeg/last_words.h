#pragma once

#include <string>

#include "ffmpeg/libav.h"

namespace spdl {

// While one is alive, what libav logs as an error on this thread is kept instead of printed, for the message of the
// exception that follows. Other threads, and other users of the same libav, print as before.
class LastWords {
  public:
    // Which of several lines is kept. As a rule the last says what went wrong; of a filter description it is the first,
    // and what follows says where.
    enum class Kept { kLast, kFirst };

    explicit LastWords(Kept kept = Kept::kLast);
    ~LastWords();
    LastWords(const LastWords&) = delete;
    LastWords& operator=(const LastWords&) = delete;

    // Throws MediaError: what was tried, libav's text for `code`, and the log line it kept.
    [[noreturn]] void raise(const std::string& what, int code) const;

    // Raises where `code` is negative, as libav's functions return errors; otherwise returns it.
    int check(int code, const char* what) const {
        if (code < 0) {
            raise(what, code);
        }
        return code;
    }

    void hear(const char* line);

  private:
    LastWords* outer_;
    Kept kept_;
    std::string line_;
};

// Installs the log callback; once, when the module is loaded.
void install_log_callback();

// Options for libav, freed with what was not used of them.
class Options {
  public:
    Options() = default;
    Options(const Options&) = delete;
    Options& operator=(const Options&) = delete;
    ~Options() { av_dict_free(&entries_); }

    void set(const char* key, const char* value);
    AVDictionary** get() { return &entries_; }

    // Raises where libav left an option because nothing knew it.
    void check_all_used(const std::string& what) const;

  private:
    AVDictionary* entries_ = nullptr;
};

}  // namespace spdl
