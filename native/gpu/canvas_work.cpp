#include "gpu/canvas_work.h"

#include <algorithm>
#include <cstdint>

namespace spdl {

using cuda::kernels::Byte;

cuda::DevicePointer upload_values(Workspace& workspace, const ArrayFormat& format) {
    if (format.type() == ElementType::kUint8) {
        return 0;
    }
    std::vector<std::uint8_t> values(3 * std::size_t{256} * format.element());
    for (std::size_t value = 0; value < 3 * std::size_t{256}; ++value) {
        format.write(value / 256, static_cast<std::uint8_t>(value % 256), values.data() + value * format.element());
    }
    return workspace.upload(values);
}

CanvasWork::CanvasWork(const ArrayFormat& format, Size canvas, cuda::DevicePointer values)
    : write_{nullptr,
             reinterpret_cast<const void*>(values),
             static_cast<int>(format.element()),
             channel_count(format.channels()),
             format.layout() == Layout::kNchw ? 1 : 0,
             canvas.width,
             canvas.height} {}

void CanvasWork::add(UploadArena& arena, const ResizeWork& work, const Byte* pixels, int width, Byte* between,
                     Byte* to) {
    cuda::kernels::Pass pass{};
    cuda::kernels::CanvasImage canvas{};
    canvas.to = to;
    work.describe(arena, pixels, width, between, pass, canvas);
    canvases_.push_back(canvas);
    if (work.has_first_pass()) {
        passes_.push_back(pass);
        largest_pass_ = {std::max(largest_pass_.width, pass.width), std::max(largest_pass_.height, pass.height)};
    }
}

void CanvasWork::place(UploadArena& arena) {
    filter_.passes = arena.add(passes_);
    write_.images = arena.add(canvases_);
}

void CanvasWork::run(const cuda::Kernels& kernels, cuda::Stream stream) const {
    if (!passes_.empty()) {
        cuda::kernels::PassArguments filter = filter_;
        cuda::launch(kernels.filter_pixels, largest_pass_.width, largest_pass_.height, static_cast<int>(passes_.size()),
                     &filter, stream, "filter_pixels");
    }
    cuda::kernels::CanvasArguments write = write_;
    cuda::launch(kernels.write_canvas, write.width, write.height, static_cast<int>(canvases_.size()), &write, stream,
                 "write_canvas");
}

cuda::kernels::Order order_of(Channels channels) {
    switch (channels) {
        case Channels::kBgr:
            return cuda::kernels::kBlueFirst;
        case Channels::kGray:
            return cuda::kernels::kGray;
        case Channels::kRgb:
            break;
    }
    return cuda::kernels::kRedFirst;
}

}  // namespace spdl
