#include <libdeflate.h>
#include <zstd.h>

#include <memory>
#include <new>
#include <string>

#include "archive/archive.h"
#include "core/decompressor.h"
#include "core/errors.h"

namespace spdl {
namespace {

constexpr int kDeflateLevel = 6;

struct FreeCompressor {
    void operator()(libdeflate_compressor* held) const { libdeflate_free_compressor(held); }
};

}  // namespace

std::size_t deflate_bound(std::size_t size) {
    return libdeflate_deflate_compress_bound(nullptr, size);
}

std::size_t zstd_bound(std::size_t size) {
    return ZSTD_compressBound(size);
}

std::size_t deflate(Bytes data, std::span<std::uint8_t> into) {
    const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(libdeflate_alloc_compressor(kDeflateLevel));
    const std::size_t size = compressor == nullptr ? 0
                                                   : libdeflate_deflate_compress(compressor.get(), data.data(),
                                                                                 data.size(), into.data(), into.size());
    if (size == 0) {
        throw std::bad_alloc();
    }
    return size;
}

std::size_t zstd(Bytes data, std::span<std::uint8_t> into) {
    const std::size_t size = ZSTD_compress(into.data(), into.size(), data.data(), data.size(), ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(size) != 0) {
        throw std::bad_alloc();
    }
    return size;
}

namespace {

// A match of 258 bytes takes two bits at least.
constexpr std::size_t kMaxRatio = 1032;

struct FreeContext {
    void operator()(ZSTD_DCtx* held) const { ZSTD_freeDCtx(held); }
};

ZSTD_DCtx* context() {
    thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> held(ZSTD_createDCtx());
    require_memory(held != nullptr);
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
    // The library begins again for a null address.
    return data.empty() ? before : libdeflate_crc32(before, data.data(), data.size());
}

void ZstdStream::Free::operator()(ZSTD_DCtx_s* held) const {
    ZSTD_freeDCtx(held);
}

ZstdStream::ZstdStream() : context_(ZSTD_createDCtx()) {
    require_memory(context_ != nullptr);
}

ZstdStream::Step ZstdStream::inflate(Bytes compressed, std::span<std::uint8_t> into) {
    ZSTD_inBuffer input{compressed.data(), compressed.size(), 0};
    ZSTD_outBuffer output{into.data(), into.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
    if (ZSTD_isError(left) != 0) {
        throw FormatError(std::string("the zstd data is damaged: ") + ZSTD_getErrorName(left));
    }
    if (input.pos > 0 || output.pos > 0) {
        between_frames_ = left == 0;
    }
    return {input.pos, output.pos};
}

}  // namespace spdl
