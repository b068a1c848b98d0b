#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/errors.h"
#include "image/tiff/tiff.h"

namespace spdl {
namespace {

TiffFile::Memory& memory(thandle_t handle) {
    return *static_cast<TiffFile::Memory*>(handle);
}

tmsize_t read(thandle_t handle, void* to, tmsize_t size) {
    TiffFile::Memory& from = memory(handle);
    const std::uint64_t left = from.at < from.bytes.size() ? from.bytes.size() - from.at : 0;
    const std::uint64_t count = std::min(left, static_cast<std::uint64_t>(size));
    if (count > 0) {
        std::memcpy(to, from.bytes.data() + from.at, count);
        from.at += count;
    }
    return static_cast<tmsize_t>(count);
}

tmsize_t write_nothing(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) {
    return 0;
}

toff_t seek(thandle_t handle, toff_t offset, int whence) {
    TiffFile::Memory& from = memory(handle);
    const std::uint64_t base = whence == SEEK_CUR ? from.at : whence == SEEK_END ? from.bytes.size() : 0;
    from.at = base + offset;
    return from.at;
}

int close(thandle_t /*handle*/) {
    return 0;
}

toff_t size(thandle_t handle) {
    return memory(handle).bytes.size();
}

int map(thandle_t handle, void** base, toff_t* count) {
    const Bytes bytes = memory(handle).bytes;
    // libtiff only reads a file that was opened to be read.
    *base = const_cast<std::uint8_t*>(bytes.data());
    *count = bytes.size();
    return 1;
}

void unmap(thandle_t /*handle*/, void* /*base*/, toff_t /*size*/) {}

// libtiff's first message is about the cause; later ones are about its effects. It is handled here: nothing is printed.
int hear_error(TIFF* /*tiff*/, void* data, const char* /*module*/, const char* format, va_list values) {
    TiffFile::Memory& heard = memory(data);
    if (heard.words[0] == '\0') {
        std::vsnprintf(heard.words, sizeof heard.words, format, values);
    }
    return 1;
}

int hear_warning(TIFF* /*tiff*/, void* data, const char* module, const char* format, va_list values) {
    constexpr std::string_view kJpeg = "JPEGLib";
    if (module != nullptr && module == kJpeg) {
        // libjpeg goes on with gray where data are missing.
        hear_error(nullptr, data, module, format, values);
        memory(data).damaged = true;
    }
    return 1;
}

struct FreeOptions {
    void operator()(TIFFOpenOptions* options) const noexcept { TIFFOpenOptionsFree(options); }
};

}  // namespace

void refuse_tiff(const std::string& pixels) {
    throw MediaError("cannot decode the TIFF: its pixels are " + pixels);
}

std::int64_t most_tiff_bytes(std::int64_t max_pixels) {
    constexpr std::int64_t kPixelBytes = 8;
    constexpr std::int64_t kLeast = std::int64_t{1} << 20;
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    return kPixelBytes * std::clamp(max_pixels, kLeast, kMost);
}

TiffFile::TiffFile(Bytes bytes, std::optional<std::uint64_t> page, std::int64_t max_pixels) {
    memory_.bytes = bytes;
    const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
    require_memory(options != nullptr);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), hear_error, &memory_);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), hear_warning, &memory_);
    const std::int64_t most = most_tiff_bytes(max_pixels);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), most);
#if TIFFLIB_VERSION >= 20240911  // 4.7.0
    TIFFOpenOptionsSetMaxCumulatedMemAlloc(options.get(), 2 * most);
#endif
    // Strips stay unchanged: "c". The first directory is not read for another page: "h".
    const char* const mode = page ? "rch" : "rc";
    tiff_ = TIFFClientOpenExt("", mode, &memory_, read, write_nothing, seek, close, size, map, unmap, options.get());
    if (tiff_ == nullptr) {
        fail("its first directory is damaged");
    }
    try {
        if (page) {
            go_to(*page);
        } else {
            go_below();
        }
    } catch (...) {
        TIFFClose(tiff_);
        throw;
    }
}

TiffFile::~TiffFile() {
    TIFFClose(tiff_);
}

void TiffFile::go_to(std::uint64_t page) {
    if (TIFFSetSubDirectory(tiff_, page) != 1) {
        fail("the directory of the page is damaged");
    }
}

void TiffFile::go_below() {
    constexpr std::uint16_t kDngVersion = 50706;
    constexpr int kMostLevels = 8;
    if (const auto directory = this->directory(); directory && directory->has(kDngVersion)) {
        refuse_tiff("those of a raw photo, which is not developed");
    }
    for (int level = 0; level < kMostLevels; ++level) {
        std::uint16_t count = 0;
        std::uint64_t* below = nullptr;
        if ((value<std::uint32_t>(TIFFTAG_SUBFILETYPE, 0) & FILETYPE_REDUCEDIMAGE) == 0 ||
            TIFFGetField(tiff_, TIFFTAG_SUBIFD, &count, &below) != 1 || count == 0) {
            return;
        }
        if (TIFFSetSubDirectory(tiff_, below[0]) != 1) {
            fail("its first picture is a smaller version, and the directory below it is damaged");
        }
    }
    fail("its first picture is a smaller version, and so are those below it");
}

std::optional<TiffDirectory> TiffFile::directory() const {
    return TiffDirectory::at(memory_.bytes, TIFFCurrentDirOffset(tiff_));
}

void TiffFile::fail(const std::string& what) const {
    const std::string words = memory_.words;
    throw MediaError("cannot decode the TIFF: " + what + (words.empty() ? "" : " (libtiff: " + words + ")"));
}

}  // namespace spdl
