#pragma once

#include <string>

#include "core/geometry.h"
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
    LastWords* outer_;
    Kept kept_;
    std::string line_;
    Size refused_size_;
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

    // Raises where libav left an option because the demuxer, or whatever `kind` it is, does not know it.
    void check_all_used(const char* kind, const char* name) const;

  private:
    AVDictionary* entries_ = nullptr;
};

}  // namespace spdl
