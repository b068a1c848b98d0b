#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/media_libraries.h"
#include "image/load/batch.h"

namespace spdl {

// The planes of a JPEG that nvJPEG decodes.
struct JpegPlanesShape {
    Size size;
    bool chroma = false;  // Besides luma, two planes of chroma; otherwise the image is gray.
    Size grid{1, 1};      // How many pixels share a chroma sample.
};

// Looks through a JPEG. Returns nothing if it is of a kind that nvJPEG does not decode as our own decoder does, or if
// it is damaged: progressive, of more than 8 bits, arithmetic, lossless, CMYK, stored as RGB, in several scans, or with
// a marker among its pixels.
std::optional<JpegPlanesShape> planes_for_gpu(Bytes jpeg);

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

// The target of a batch.
struct GpuTarget {
    cuda::Device device = 0;
    cuda::Stream stream = nullptr;
    std::string kernel_folder;  // Where compiled kernels are kept.
    // Allocates the memory of the batch. Called once, before anything is submitted.
    std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;
};

// As Batch.
struct GpuBatch {
    cuda::DeviceMemory memory;
    std::vector<std::size_t> shape;  // Without images if none could be loaded.
    std::vector<Failure> failures;
    std::vector<const Backend*> backends;
};

// Does what load_batch does, on a GPU, if the size of the results is known in advance: nvJPEG decodes, and kernels
// resize and convert. The CPU loads the images that nvJPEG does not decode. The work is done when it returns. Returns
// nothing if the CPU should load the whole batch: if less than `least` images are for nvJPEG, or if it refuses one that
// is damaged. Throws CudaError.
std::optional<GpuBatch> load_batch_on_gpu(std::span<const ImageInput> inputs, const LoadOptions& options,
                                          const CropsAndFlips& crops, const BatchOptions& batch, std::size_t least,
                                          const GpuTarget& target);

}  // namespace spdl
