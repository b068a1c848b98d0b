#include "archive/zstd_stream.h"

#include <zstd.h>

#include <new>
#include <string>

#include "core/format_error.h"

namespace spdl {

void ZstdStream::Free::operator()(ZSTD_DCtx_s* held) const {
    ZSTD_freeDCtx(held);
}

ZstdStream::ZstdStream() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
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
