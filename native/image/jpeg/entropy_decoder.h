#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>

// jpeglib.h wants cstdio first.
#include <jpeglib.h>

namespace spdl {

// Our own decoder of the Huffman-coded coefficients of a JPEG, which take two thirds of the time in libjpeg-turbo. It
// works inside libjpeg-turbo and shares its private structures. So it is compiled in only if that library is built for
// us, from the version that this is written for (picture_libraries.cmake). Otherwise it takes over nothing.
//
// Its coefficients are the same as those of libjpeg's own decoder, even for damaged data. One thread at a time.
class EntropyDecoder {
  public:
    static const bool kCompiledIn;

    EntropyDecoder();
    ~EntropyDecoder();
    EntropyDecoder(const EntropyDecoder&) = delete;
    EntropyDecoder& operator=(const EntropyDecoder&) = delete;

    // Takes over the entropy decoding of `codec`, and returns whether it did. jpeg_start_decompress must have just
    // returned, and all data must be in memory. It takes over a baseline image of one scan, with 8 bits and no restart
    // intervals, whose scan is ended by a marker. It leaves everything else to libjpeg's own decoder.
    bool take_over(jpeg_decompress_struct& codec) noexcept;

    // Returns whether the scan has ended before the last decoded rows did: zeros were read for the rest.
    [[nodiscard]] bool data_ran_out() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace spdl
