#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "cuda/kernel_arguments.h"
#include "image/plan/image_plan.h"
#include "image/resize/resample_table.h"

namespace spdl {

// Data for kernels, which is put together in main memory and copied to the device as a whole.
class UploadArena {
  public:
    // `base` is where the data will be on the device.
    explicit UploadArena(std::uint64_t base) : base_(base) {}

    // Appends values, and returns where they will be.
    template <typename T>
    const T* add(const T* values, std::size_t count) {
        return reinterpret_cast<const T*>(base_ + append(values, count * sizeof(T)));
    }

    template <typename T>
    const T* add(const std::vector<T>& values) {
        return add(values.data(), values.size());
    }

    [[nodiscard]] std::vector<std::uint8_t>& bytes() { return bytes_; }

  private:
    std::size_t append(const void* values, std::size_t size);

    std::uint64_t base_;
    std::vector<std::uint8_t> bytes_;
};

// The tables of the resize of one image.
class ResizeWork {
  public:
    explicit ResizeWork(const ImagePlan& plan);

    // Returns the bytes of what the first of two passes makes; 0 if there is one.
    [[nodiscard]] std::size_t between_bytes() const;

    // Returns the bytes that add_tables() needs at most.
    [[nodiscard]] std::size_t table_bytes() const;

    [[nodiscard]] bool has_first_pass() const { return two_passes_; }

    // Puts the tables into the arena and fills in the passes. `pixels` are those of the stored image of that width,
    // `between` is memory for between_bytes().
    void describe(UploadArena& arena, const cuda::kernels::Byte* pixels, int width, cuda::kernels::Byte* between,
                  cuda::kernels::Pass& first, cuda::kernels::CanvasImage& last) const;

  private:
    ImagePlan plan_;
    bool across_ = false;  // Whether there is a pass along rows,
    bool down_ = false;    // and along columns.
    bool nearest_ = false;
    bool two_passes_ = false;
    ResampleTable horizontal_;
    ResampleTable vertical_;
    NearestTable columns_;
    NearestTable rows_;
    Box needed_;  // The part of the stored image.
};

}  // namespace spdl
