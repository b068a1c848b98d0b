#pragma once

#include <cstddef>
#include <vector>

#include "core/geometry.h"
#include "cuda/kernels.h"
#include "gpu/resize_work.h"
#include "gpu/workspace.h"
#include "media/array_format.h"

namespace spdl {

// Puts what bytes become in an array of floats on the device. Returns 0 for an array of bytes.
cuda::DevicePointer upload_values(Workspace& workspace, const ArrayFormat& format);

// The resizes of some images, each onto a canvas of its own.
class CanvasWork {
  public:
    // `values` are those of upload_values().
    CanvasWork(const ArrayFormat& format, Size canvas, cuda::DevicePointer values);

    // The bytes that each image takes in the arena, besides the tables.
    static constexpr std::size_t kBytes =
        sizeof(cuda::kernels::Pass) + sizeof(cuda::kernels::CanvasImage) + 2 * UploadArena::kAlignment;

    // Adds an image. `pixels` are those of the stored image of that width, `between` is memory for between_bytes() of
    // the work, and the canvas begins at `to`.
    void add(UploadArena& arena, const ResizeWork& work, const cuda::kernels::Byte* pixels, int width,
             cuda::kernels::Byte* between, cuda::kernels::Byte* to);

    // Puts the list of images into the arena.
    void place(UploadArena& arena);

    // Runs the kernels, after the arena was copied to the device.
    void run(const cuda::Kernels& kernels, cuda::Stream stream) const;

  private:
    std::vector<cuda::kernels::Pass> passes_;
    std::vector<cuda::kernels::CanvasImage> canvases_;
    Size largest_pass_;
    cuda::kernels::PassArguments filter_{};
    cuda::kernels::CanvasArguments write_{};
};

// Returns the order in which kernels are to write colours.
cuda::kernels::Order order_of(Channels channels);

}  // namespace spdl
