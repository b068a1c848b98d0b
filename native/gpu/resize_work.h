#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/geometry.h"
#include "core/non_copyable.h"
#include "cuda/device.h"
#include "cuda/kernel_arguments.h"
#include "cuda/kernels.h"
#include "image/plan/image_plan.h"
#include "image/resize/resample_table.h"
#include "media/pixel_format.h"

namespace spdl {

// The device memory of work on a stream. It is given back when the work is done, also if an exception ends it. The
// device's context must be current.
class Workspace : NonCopyable {
  public:
    Workspace(cuda::Device device, cuda::Stream stream) : device_(device), stream_(stream) {}
    ~Workspace();

    // Says that work is submitted that does not use this memory.
    void begin() { finished_ = false; }

    cuda::DevicePointer allocate(std::size_t bytes);

    // Copies bytes to memory that they fit into, and returns when they are there.
    void upload(std::vector<std::uint8_t>& bytes, cuda::DevicePointer to, std::size_t room);

    // Does so to new memory, and returns its place.
    cuda::DevicePointer upload(std::vector<std::uint8_t>& bytes);

    // Waits until all work on the stream is done.
    void finish();

  private:
    cuda::Device device_;
    cuda::Stream stream_;
    bool finished_ = true;
    std::vector<cuda::DeviceMemory> memory_;
};

// The tables of a batch. Images of one size share theirs. Any number of threads may use it at once.
class SharedTables {
  public:
    std::shared_ptr<const ResampleTable> find(const Axis& axis, Interpolation interpolation);

  private:
    // More are not looked through: they cost more than the tables of images that are alike would save.
    static constexpr std::size_t kMost = 32;

    std::mutex mutex_;
    std::vector<std::shared_ptr<const ResampleTable>> tables_;
};

// Data for kernels, which is put together in main memory and copied to the device as a whole.
class UploadArena {
  public:
    // Values are aligned for every type that kernels read.
    static constexpr std::size_t kAlignment = 16;

    // `base` is where the data will be on the device.
    explicit UploadArena(std::uint64_t base) : base_(base) {}

    // Appends values, and returns their future place.
    template <typename T>
    const T* add(const T* values, std::size_t count) {
        return reinterpret_cast<const T*>(base_ + append(values, count * sizeof(T)));
    }

    template <typename T>
    const T* add(const std::vector<T>& values) {
        return add(values.data(), values.size());
    }

    // Appends a table, once.
    cuda::kernels::Filter add(const std::shared_ptr<const ResampleTable>& table);

    [[nodiscard]] std::vector<std::uint8_t>& bytes() { return bytes_; }

  private:
    std::size_t append(const void* values, std::size_t size);

    std::uint64_t base_;
    std::vector<std::uint8_t> bytes_;
    std::map<const ResampleTable*, cuda::kernels::Filter> filters_;
};

// The tables of the resize of one image.
class ResizeWork {
  public:
    ResizeWork(const ImagePlan& plan, SharedTables& tables);

    // Returns the bytes of what the first of two passes makes; 0 if there is one.
    [[nodiscard]] std::size_t between_bytes() const;

    // Returns the bytes that add_tables() needs at most.
    [[nodiscard]] std::size_t table_bytes() const;

    [[nodiscard]] bool has_first_pass() const { return two_passes_; }

    // Puts the tables into the arena and fills in the passes. `pixels` belong to the stored image of that width,
    // `between` is memory for between_bytes().
    void describe(UploadArena& arena, const cuda::kernels::Byte* pixels, int width, cuda::kernels::Byte* between,
                  cuda::kernels::Pass& first, cuda::kernels::CanvasImage& last) const;

  private:
    ImagePlan plan_;
    bool across_ = false;  // Whether there is a pass along rows,
    bool down_ = false;    // and along columns.
    bool nearest_ = false;
    bool two_passes_ = false;
    std::shared_ptr<const ResampleTable> horizontal_;  // Null without a pass.
    std::shared_ptr<const ResampleTable> vertical_;
    NearestTable columns_;
    NearestTable rows_;
    Box needed_;  // The part of the stored image.
};

// Puts what bytes become in an array of floats on the device. Returns 0 for an array of bytes.
cuda::DevicePointer upload_values(Workspace& workspace, const ArrayFormat& format);

// The resizes of some images, each onto its own canvas.
class CanvasWork {
  public:
    // `values` come from upload_values().
    CanvasWork(const ArrayFormat& format, Size canvas, cuda::DevicePointer values);

    // The bytes of each image in the arena, without the tables.
    static constexpr std::size_t kBytes =
        sizeof(cuda::kernels::Pass) + sizeof(cuda::kernels::CanvasImage) + 2 * UploadArena::kAlignment;

    // Adds an image. `pixels` belong to the stored image of that width, `between` is memory for between_bytes() of the
    // work, and the canvas begins at `to`.
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

// Returns the order in which kernels write colours.
cuda::kernels::Order order_of(Channels channels);

}  // namespace spdl
