#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

namespace spdl {

// Our own decoder of the Huffman-coded coefficients of a JPEG, the part that takes two thirds of the time in
// libjpeg-turbo. It works inside libjpeg-turbo, whose private structures it shares: it is compiled in only where that
// library is built for us, from the version that this is written for (SPDL_OWN_ENTROPY_DECODER). Elsewhere it takes
// over nothing.
//
// Its coefficients are those of libjpeg's own decoder, those of damaged data included. One thread at a time.
class EntropyDecoder {
  public:
    static const bool kCompiledIn;

    EntropyDecoder();
    ~EntropyDecoder();
    EntropyDecoder(const EntropyDecoder&) = delete;
    EntropyDecoder& operator=(const EntropyDecoder&) = delete;

    // Takes over the entropy decoding of `codec`, for which jpeg_start_decompress has just returned and whose data are
    // in memory as a whole, and returns whether it did: a baseline image of one scan, with 8 bits and no restart
    // intervals, whose scan is ended by a marker. Everything else is left to libjpeg's own decoder.
    bool take_over(jpeg_decompress_struct& codec) noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace spdl
