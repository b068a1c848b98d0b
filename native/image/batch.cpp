#include "image/batch.h"

#include <cstring>

#include "core/media_error.h"
#include "image/image_reader.h"
#include "image/write_image.h"

namespace spdl {
namespace {

std::string describe(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

class BatchWriter {
  public:
    BatchWriter(std::size_t capacity, const Resize& resize, const Memory* memory)
        : capacity_(capacity), resize_(resize), memory_(memory) {
        if (resize.target.width != 0 && resize.target.height != 0) {
            allocate_for(resize.target);
        }
    }

    void add(const Source& source) {
        ThreadScratch& scratch = thread_scratch();
        const bool in_memory = source.path.data() == nullptr;
        ImageReader reader(in_memory ? source.bytes : scratch.file.read(source.path), scratch);
        const Placement placement = place(reader.size(), resize_.target, resize_.fit);
        if (images_.data == nullptr) {
            allocate_for(placement.canvas);
        } else if (placement.canvas != size_) {
            throw MediaError("it becomes " + describe(placement.canvas) + ", but the images before it " +
                             describe(size_) + ": give both width and height for a batch of one size");
        }
        write_image(reader, placement, resize_.interpolation, images_.data + loaded_ * rgb_bytes(size_), scratch);
        ++loaded_;
    }

    Buffer finish() {
        if (loaded_ == 0) {
            return {};
        }
        images_.shape[0] = loaded_;
        return std::move(images_);
    }

  private:
    void allocate_for(Size size) {
        check_size(size, "an output size");
        std::vector<std::size_t> shape{capacity_, static_cast<std::size_t>(size.height),
                                       static_cast<std::size_t>(size.width), 3};
        images_ = memory_ == nullptr ? allocate(std::move(shape), ElementType::kUint8)
                                     : allocate_in(*memory_, std::move(shape), ElementType::kUint8);
        size_ = size;
    }

    std::size_t capacity_;
    const Resize& resize_;
    const Memory* memory_;
    Buffer images_;
    Size size_;
    std::size_t loaded_ = 0;
};

}  // namespace

Batch load_batch(std::span<const Source> sources, const Resize& resize, const Memory* memory) {
    BatchWriter writer(sources.size(), resize, memory);
    std::vector<Failure> failures;
    for (std::size_t index = 0; index < sources.size(); ++index) {
        try {
            writer.add(sources[index]);
        } catch (const ArrayError&) {
            throw;
        } catch (const MediaError& error) {
            failures.push_back({index, error.what()});
        }
    }
    return {writer.finish(), std::move(failures)};
}

}  // namespace spdl
