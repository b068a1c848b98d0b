#include "gpu/resize_work.h"

#include <cstring>

namespace spdl {
namespace {

using cuda::kernels::Byte;
using cuda::kernels::CanvasImage;
using cuda::kernels::Filter;
using cuda::kernels::Pass;

constexpr std::size_t kAlignment = UploadArena::kAlignment;

struct Range {
    int begin = 0;
    int end = 0;
};

// The part of the input that a copy needs.
Range copied(const Axis& axis) {
    const int begin = axis.mirrored ? axis.input - axis.first - axis.count : axis.first;
    return {begin, begin + axis.count};
}

template <typename Table>
Range needed(const Table& table) {
    return {table.source, table.source + table.source_count};
}

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
    Range columns = copied(resampling.horizontal);
    Range rows = copied(resampling.vertical);
    across_ = !resampling.horizontal.copies();
    down_ = !resampling.vertical.copies();
    if (resampling.interpolation == Interpolation::kNearest && (across_ || down_)) {
        nearest_ = true;
        columns_.build(resampling.horizontal);
        rows_.build(resampling.vertical);
        columns = needed(columns_);
        rows = needed(rows_);
    } else {
        if (across_) {
            horizontal_ = tables.find(resampling.horizontal, resampling.interpolation);
            columns = needed(*horizontal_);
        }
        if (down_) {
            vertical_ = tables.find(resampling.vertical, resampling.interpolation);
            rows = needed(*vertical_);
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

}  // namespace spdl
