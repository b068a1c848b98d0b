#include "archive/compress.h"

#include <libdeflate.h>
#include <zstd.h>

#include <memory>
#include <new>

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

}  // namespace spdl
