#include "archive/inflate.h"

#include <libdeflate.h>
#include <zstd.h>

#include <memory>
#include <new>
#include <string>

#include "core/decompressor.h"
#include "core/format_error.h"

namespace spdl {
namespace {

// A match of 258 bytes takes two bits at least.
constexpr std::size_t kMaxRatio = 1032;

struct FreeContext {
    void operator()(ZSTD_DCtx* held) const { ZSTD_freeDCtx(held); }
};

ZSTD_DCtx* context() {
    thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> held(ZSTD_createDCtx());
    if (held == nullptr) {
        throw std::bad_alloc();
    }
    return held.get();
}

[[noreturn]] void fail(const char* codec, const std::string& what) {
    throw FormatError(std::string("its ") + codec + " data " + what);
}

std::string sizes(std::size_t size) {
    return "than the " + std::to_string(size) + " bytes that it is said to have";
}

}  // namespace

void inflate_deflate(Bytes compressed, std::span<std::uint8_t> into) {
    // Empty results have no address; the library wants one.
    std::uint8_t nothing = 0;
    std::size_t used = 0;
    std::size_t made = 0;
    switch (libdeflate_deflate_decompress_ex(decompressor(), compressed.data(), compressed.size(),
                                             into.empty() ? &nothing : into.data(), into.size(), &used, &made)) {
        case LIBDEFLATE_SUCCESS:
            break;
        case LIBDEFLATE_INSUFFICIENT_SPACE:
            fail("deflate", "inflates to more " + sizes(into.size()));
        case LIBDEFLATE_BAD_DATA:
        case LIBDEFLATE_SHORT_OUTPUT:
        default:
            fail("deflate", "is damaged or truncated");
    }
    if (made != into.size()) {
        fail("deflate", "inflates to " + std::to_string(made) + ", fewer " + sizes(into.size()));
    }
    if (used != compressed.size()) {
        fail("deflate",
             "ends after " + std::to_string(used) + " of its " + std::to_string(compressed.size()) + " bytes");
    }
}

void inflate_zstd(Bytes compressed, std::span<std::uint8_t> into) {
    std::uint8_t nothing = 0;
    const std::size_t made = ZSTD_decompressDCtx(context(), into.empty() ? &nothing : into.data(), into.size(),
                                                 compressed.data(), compressed.size());
    if (ZSTD_isError(made) != 0) {
        fail("zstd", std::string("cannot be inflated to the ") + std::to_string(into.size()) +
                         " bytes that it is said to have: " + ZSTD_getErrorName(made));
    }
    if (made != into.size()) {
        fail("zstd", "inflates to " + std::to_string(made) + ", fewer " + sizes(into.size()));
    }
}

bool deflate_can_make(std::size_t size, std::size_t compressed_size) {
    return size / kMaxRatio <= compressed_size;
}

std::uint32_t crc32(Bytes data, std::uint32_t before) {
    // The library begins anew for a null address.
    return data.empty() ? before : libdeflate_crc32(before, data.data(), data.size());
}

}  // namespace spdl
