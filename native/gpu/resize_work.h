#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/geometry.h"
#include "cuda/kernel_arguments.h"
#include "image/plan/image_plan.h"
#include "image/resize/resample_table.h"

namespace spdl {

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

    // Appends values, and returns where they will be.
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
    std::shared_ptr<const ResampleTable> horizontal_;  // Null without a pass.
    std::shared_ptr<const ResampleTable> vertical_;
    NearestTable columns_;
    NearestTable rows_;
    Box needed_;  // The part of the stored image.
};

}  // namespace spdl
