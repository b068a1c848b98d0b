#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Options for libav, freed with what was not used of them.
class LibavOptions {
  public:
    LibavOptions() = default;
    LibavOptions(const LibavOptions&) = delete;
    LibavOptions& operator=(const LibavOptions&) = delete;
    ~LibavOptions() { av_dict_free(&entries_); }

    void set(const char* key, const char* value);
    AVDictionary** get() { return &entries_; }

    // Raises where libav left an option because the demuxer, or whatever `kind` it is, does not know it.
    void check_all_used(const char* kind, const char* name) const;

  private:
    AVDictionary* entries_ = nullptr;
};

}  // namespace spdl
