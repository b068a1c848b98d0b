#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Options for libav. The destructor frees the unused ones.
class LibavOptions {
  public:
    LibavOptions() = default;
    LibavOptions(const LibavOptions&) = delete;
    LibavOptions& operator=(const LibavOptions&) = delete;
    ~LibavOptions() { av_dict_free(&entries_); }

    void set(const char* key, const char* value);
    AVDictionary** get() { return &entries_; }

    // Raises if libav left an option unused because the demuxer, or another part of the given `kind`, does not know it.
    void check_all_used(const char* kind, const char* name) const;

  private:
    AVDictionary* entries_ = nullptr;
};

}  // namespace spdl
