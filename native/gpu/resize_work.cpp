#include "gpu/resize_work.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/buffer.h"

namespace spdl {

Workspace::~Workspace() {
    if (!finished_ && cuda::driver().wait_for_stream(stream_) != cuda::Status::kSuccess) {
        // Nobody can tell when the GPU is done with this memory, so it is never used again.
        static_cast<void>(new std::vector<cuda::DeviceMemory>(std::move(memory_)));
    }
}

cuda::DevicePointer Workspace::allocate(std::size_t bytes) {
    finished_ = false;
    return memory_.emplace_back(cuda::allocate_device(device_, bytes, stream_)).pointer;
}

void Workspace::upload(std::vector<std::uint8_t>& bytes, cuda::DevicePointer to, std::size_t room) {
    if (bytes.size() > room) {
        throw std::logic_error("tables for kernels are larger than was counted");
    }
    cuda::copy_to_device({nullptr, bytes.data(), {bytes.size()}}, to, device_, stream_);
}

cuda::DevicePointer Workspace::upload(std::vector<std::uint8_t>& bytes) {
    const cuda::DevicePointer to = allocate(bytes.size());
    upload(bytes, to, bytes.size());
    return to;
}

void Workspace::finish() {
    const cuda::Driver& api = cuda::driver();
    const char* const what = "waiting for work on the GPU";
    // An event, because waiting for a stream itself may keep a core busy.
    cuda::Event done = nullptr;
    cuda::check(api.create_event(&done, cuda::kQuietEvent), "cuEventCreate", what);
    const cuda::Status recorded = api.record_event(done, stream_);
    const cuda::Status waited = recorded == cuda::Status::kSuccess ? api.wait_for_event(done) : recorded;
    api.destroy_event(done);
    cuda::check(waited, recorded == cuda::Status::kSuccess ? "cuEventSynchronize" : "cuEventRecord", what);
    finished_ = true;
}

namespace {

using cuda::kernels::Byte;
using cuda::kernels::CanvasImage;
using cuda::kernels::Filter;
using cuda::kernels::Pass;

constexpr std::size_t kAlignment = UploadArena::kAlignment;

std::size_t bytes_of(const std::shared_ptr<const ResampleTable>& table) {
    if (!table) {
        return 0;
    }
    return sizeof(std::int32_t) * (table->first.size() + table->taps.size() + table->weights.size()) + 3 * kAlignment;
}

}  // namespace

std::size_t UploadArena::append(const void* values, std::size_t size) {
    const std::size_t at = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, values, size);
    return at;
}

Filter UploadArena::add(const std::shared_ptr<const ResampleTable>& table) {
    const auto [place, added] = filters_.try_emplace(table.get());
    if (added) {
        Filter& filter = place->second;
        filter.first = add(table->first);
        filter.taps = add(table->taps);
        filter.weights = add(table->weights);
        filter.stride = static_cast<int>(table->stride);
    }
    return place->second;
}

std::shared_ptr<const ResampleTable> SharedTables::find(const Axis& axis, Interpolation interpolation) {
    {
        const std::scoped_lock lock(mutex_);
        for (const auto& table : tables_) {
            if (table->axis == axis && table->interpolation == interpolation) {
                return table;
            }
        }
    }
    auto built = std::make_shared<ResampleTable>();
    built->build(axis, interpolation);
    const std::scoped_lock lock(mutex_);
    if (tables_.size() < kMost) {
        tables_.push_back(built);
    }
    return built;
}

ResizeWork::ResizeWork(const ImagePlan& plan, SharedTables& tables) : plan_(plan) {
    if (plan.black) {
        return;
    }
    const Resampling& resampling = plan.resampling;
    SampleRange columns = copied_samples(resampling.horizontal);
    SampleRange rows = copied_samples(resampling.vertical);
    across_ = !resampling.horizontal.copies();
    down_ = !resampling.vertical.copies();
    if (resampling.interpolation == Interpolation::kNearest && (across_ || down_)) {
        nearest_ = true;
        columns_.build(resampling.horizontal);
        rows_.build(resampling.vertical);
        columns = needed_samples(columns_);
        rows = needed_samples(rows_);
    } else {
        if (across_) {
            horizontal_ = tables.find(resampling.horizontal, resampling.interpolation);
            columns = needed_samples(*horizontal_);
        }
        if (down_) {
            vertical_ = tables.find(resampling.vertical, resampling.interpolation);
            rows = needed_samples(*vertical_);
        }
        two_passes_ = across_ && down_;
    }
    needed_ = {columns.begin + plan.origin.left, rows.begin + plan.origin.top, columns.end + plan.origin.left,
               rows.end + plan.origin.top};
}

std::size_t ResizeWork::between_bytes() const {
    if (!two_passes_) {
        return 0;
    }
    const Resampling& resampling = plan_.resampling;
    return resampling.vertical_first ? rgb_bytes(Size{needed_.size().width, resampling.vertical.count})
                                     : rgb_bytes(Size{resampling.horizontal.count, needed_.size().height});
}

std::size_t ResizeWork::table_bytes() const {
    return bytes_of(horizontal_) + bytes_of(vertical_) +
           sizeof(int) * (columns_.samples.size() + rows_.samples.size()) + 2 * kAlignment;
}

void ResizeWork::describe(UploadArena& arena, const Byte* pixels, int width, Byte* between, Pass& first,
                          CanvasImage& last) const {
    const Target& target = plan_.target;
    last.left = target.box.left;
    last.top = target.box.top;
    last.right = target.box.right;
    last.bottom = target.box.bottom;
    last.transposed = target.transposed ? 1 : 0;
    last.last_first = target.last_first ? 1 : 0;
    if (plan_.black) {
        return;
    }
    const int pitch = 3 * width;
    last.from_pitch = pitch;
    last.from =
        pixels + static_cast<std::ptrdiff_t>(needed_.top) * pitch + 3 * static_cast<std::ptrdiff_t>(needed_.left);
    if (nearest_) {
        last.pass = cuda::kernels::kNearest;
        last.columns = arena.add(columns_.samples);
        last.rows = arena.add(rows_.samples);
        return;
    }
    if (!two_passes_) {
        last.pass = across_ ? cuda::kernels::kAcross : down_ ? cuda::kernels::kDown : cuda::kernels::kCopy;
        if (across_ || down_) {
            last.filter = arena.add(across_ ? horizontal_ : vertical_);
        }
        return;
    }
    const bool down_first = plan_.resampling.vertical_first;
    first.from = last.from;
    first.from_pitch = pitch;
    first.to = between;
    first.down = down_first ? 1 : 0;
    first.width = down_first ? needed_.size().width : plan_.resampling.horizontal.count;
    first.height = down_first ? plan_.resampling.vertical.count : needed_.size().height;
    first.filter = arena.add(down_first ? vertical_ : horizontal_);
    last.from = between;
    last.from_pitch = 3 * first.width;
    last.pass = down_first ? cuda::kernels::kAcross : cuda::kernels::kDown;
    last.filter = arena.add(down_first ? horizontal_ : vertical_);
}

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
