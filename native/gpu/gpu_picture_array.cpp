#include "gpu/gpu_picture_array.h"

#include <cstdint>
#include <utility>

#include "av/picture_array.h"
#include "gpu/canvas_work.h"
#include "gpu/workspace.h"
#include "image/plan/image_plan.h"

namespace spdl {
namespace {

using cuda::kernels::Byte;

constexpr std::size_t kPitch = 256;

std::size_t round_up(std::size_t value) {
    return (value + kPitch - 1) / kPitch * kPitch;
}

}  // namespace

GpuPictureArray::GpuPictureArray(const LoadOptions& options, int rotation, std::size_t count, const Target& target)
    : options_(options),
      rotation_(options.upright ? rotation : 0),
      count_(count),
      target_(target),
      kernels_(cuda::load_kernels(target.device, target.kernel_folder)) {}

void GpuPictureArray::add(GpuFrame frame, std::size_t row) {
    const std::size_t bytes = 2 * rgb_bytes(frame.form.shown);
    const bool full = waiting_.size() == kMostFrames || (waiting_.size() + 1) * bytes > kMostWorkspace;
    if (!waiting_.empty() && (full || waiting_.front().frame.form != frame.form)) {
        convert();
    }
    waiting_.push_back({std::move(frame), row});
}

void GpuPictureArray::begin(Size canvas) {
    if (memory_.pointer == 0) {
        canvas_ = canvas;
        row_bytes_ = options_.format.image_bytes(canvas);
        shape_ = options_.format.shape(count_, canvas);
        memory_ = target_.allocate(row_bytes_ * count_);
    }
    if (canvas != canvas_) {
        throw_size_change(canvas_, canvas);
    }
}

// Converts the frames that wait, and returns when that is done.
void GpuPictureArray::convert() {
    const FrameForm& form = waiting_.front().frame.form;
    const ImageShape shape{form.shown, turned_by(rotation_)};
    const ImagePlan plan = plan_image(shape, options_, {whole(shape.upright()), false});
    begin(plan.canvas);
    const ResizeWork work(plan, tables_);
    const std::size_t count = waiting_.size();
    const std::size_t pixel_bytes = round_up(rgb_bytes(form.shown));
    const std::size_t bytes = pixel_bytes + round_up(work.between_bytes());

    const cuda::ContextScope scope(target_.device);
    Workspace workspace(target_.device, target_.stream);
    const std::size_t table_bytes = count * work.table_bytes() + count * (sizeof(cuda::kernels::YuvImage) +
                                                                          UploadArena::kAlignment + CanvasWork::kBytes);
    const cuda::DevicePointer pixels = workspace.allocate(count * bytes);
    const cuda::DevicePointer tables = workspace.allocate(table_bytes);
    UploadArena arena(tables);
    CanvasWork canvases(options_.format, canvas_, upload_values(workspace, options_.format));
    std::vector<cuda::kernels::YuvImage> images;
    for (std::size_t i = 0; i < count; ++i) {
        const Waiting& each = waiting_[i];
        auto* const here = reinterpret_cast<Byte*>(pixels + i * bytes);
        images.push_back({reinterpret_cast<const Byte*>(each.frame.memory.pointer), here});
        canvases.add(arena, work, here, form.shown.width, here + pixel_bytes,
                     reinterpret_cast<Byte*>(memory_.pointer + each.row * row_bytes_));
    }
    cuda::kernels::PixelsArguments to_pixels{arena.add(images),
                                             form.shown.width,
                                             form.shown.height,
                                             form.surface.width,
                                             form.surface.height,
                                             yuv_factors(form.colors, form.bits),
                                             order_of(options_.format.channels())};
    canvases.place(arena);
    workspace.upload(arena.bytes(), tables, table_bytes);
    cuda::launch(kernels_.convert_to_pixels, form.shown.width, form.shown.height, static_cast<int>(count), &to_pixels,
                 target_.stream, "convert_to_pixels");
    canvases.run(kernels_, target_.stream);
    workspace.finish();
    waiting_.clear();
}

void GpuPictureArray::copy(std::size_t from, std::size_t to) {
    if (!waiting_.empty()) {
        convert();
    }
    const cuda::ContextScope scope(target_.device);
    Workspace workspace(target_.device, target_.stream);
    workspace.begin();
    cuda::Copy2d copy;
    copy.from = memory_.pointer + from * row_bytes_;
    copy.to = memory_.pointer + to * row_bytes_;
    copy.width_bytes = row_bytes_;
    copy.from_pitch = row_bytes_;
    copy.to_pitch = row_bytes_;
    copy.height = 1;
    cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", "repeating a picture");
    workspace.finish();
}

cuda::DeviceMemory GpuPictureArray::take() {
    if (!waiting_.empty()) {
        convert();
    }
    return std::move(memory_);
}

}  // namespace spdl
