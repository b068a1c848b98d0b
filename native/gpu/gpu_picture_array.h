#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels.h"
#include "gpu/gpu_frame_picker.h"
#include "gpu/resize_work.h"
#include "media/load_options.h"

namespace spdl {

// Does on a GPU what PictureArray does with exact pictures: one array of pictures, whose size is that of the first one
// added. Frames are converted at their full size, and resized with the tables of the CPU.
class GpuPictureArray {
  public:
    struct Target {
        cuda::Device device = 0;
        cuda::Stream stream = nullptr;
        std::string kernel_folder;
        std::function<cuda::DeviceMemory(std::size_t bytes)> allocate;  // Of the array.
    };

    // The options must live as long as the array is being made.
    GpuPictureArray(const LoadOptions& options, int rotation, std::size_t count, const Target& target);

    // Adds a frame for a row. It may be converted later.
    void add(GpuFrame frame, std::size_t row);

    // Makes a row equal to another one, which was added.
    void copy(std::size_t from, std::size_t to);

    // Returns the array, whose rows must have been added. All work is done.
    cuda::DeviceMemory take();

    [[nodiscard]] const std::vector<std::size_t>& shape() const { return shape_; }

  private:
    // Frames are converted together up to that.
    static constexpr std::size_t kMostFrames = 16;
    static constexpr std::size_t kMostWorkspace = std::size_t{1} << 28;

    struct Waiting {
        GpuFrame frame;
        std::size_t row = 0;
    };

    void begin(Size canvas);
    void convert();

    const LoadOptions& options_;
    int rotation_;
    std::size_t count_;
    Target target_;
    const cuda::Kernels& kernels_;
    SharedTables tables_;
    std::vector<Waiting> waiting_;  // Of one form.
    cuda::DeviceMemory memory_;
    std::vector<std::size_t> shape_;
    Size canvas_;
    std::size_t row_bytes_ = 0;
};

}  // namespace spdl
