#include "ffmpeg/libav_options.h"

#include <new>
#include <string>

#include "core/media_error.h"

namespace spdl {

void LibavOptions::set(const char* key, const char* value) {
    if (av_dict_set(&entries_, key, value, 0) < 0) {
        throw std::bad_alloc();
    }
}

void LibavOptions::check_all_used(const char* kind, const char* name) const {
    if (const AVDictionaryEntry* entry = av_dict_get(entries_, "", nullptr, AV_DICT_IGNORE_SUFFIX)) {
        throw MediaError(std::string("the ") + kind + " \"" + name + "\" has no option \"" + entry->key +
                         "\" (set to \"" + entry->value + "\")");
    }
}

}  // namespace spdl
