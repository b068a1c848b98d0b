#pragma once

#include <span>

#include "core/bytes.h"
#include "cuda/driver.h"
#include "cuda/nvjpeg.h"

namespace spdl {

// A JPEG, and where on the device its planes go.
struct JpegJob {
    Bytes data;
    cuda::JpegPlanes planes;
};

// nvJPEG does not decode one of the images: it is damaged, or of a kind that it does not know.
class JpegRefused : public cuda::CudaError {
  public:
    using CudaError::CudaError;
};

// Decodes JPEGs on a device whose context is current. The work is submitted to `stream`; the data must stay until it is
// done. The chip's JPEG engine decodes what it can, and kernels the rest. Decoders are kept for the next batch.
void decode_jpegs(cuda::Device device, std::span<const JpegJob> jobs, int num_threads, cuda::Stream stream);

}  // namespace spdl
