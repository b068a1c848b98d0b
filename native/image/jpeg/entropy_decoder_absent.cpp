// Replaces entropy_decoder.cpp if libjpeg-turbo is the system's, whose private structures may differ.

#include "image/jpeg/entropy_decoder.h"

namespace spdl {

const bool EntropyDecoder::kCompiledIn = false;

struct EntropyDecoder::State {};

EntropyDecoder::EntropyDecoder() = default;

EntropyDecoder::~EntropyDecoder() = default;

bool EntropyDecoder::take_over(jpeg_decompress_struct& /*codec*/) noexcept {
    return false;
}

bool EntropyDecoder::data_ran_out() const noexcept {
    return false;
}

}  // namespace spdl
