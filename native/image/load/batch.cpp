#include "image/load/batch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/parallel.h"
#include "core/trace.h"
#include "image/load/one_image.h"
#include "image/tiff/tiff.h"

namespace spdl {
namespace {

// The outcome of one image.
struct Outcome {
    bool loaded = false;
    const Backend* backend = nullptr;
    bool dropped_pages = false;
    std::string reason;
};

class BatchLoader {
  public:
    BatchLoader(std::span<const ImageInput> inputs, const LoadOptions& options, const CropsAndFlips& crops,
                const BatchOptions& batch, const Memory* memory)
        : inputs_(inputs),
          options_(options),
          crops_(crops),
          batch_(batch),
          memory_(memory),
          decode_(batch.decode),
          outcomes_(inputs.size()) {
        transformed_.format = options.format;
        transformed_.fit = Fit::kStretch;
        decode_.ids = options.ids;
    }

    Batch run() {
        if (options_.center != Size{}) {
            // The output size is known in advance only if the centre is cut out of a known size; then it is the
            // centre's size.
            if (options_.target.width != 0 && options_.target.height != 0 && options_.center.width != 0 &&
                options_.center.height != 0) {
                allocate_for(options_.center);
            }
        } else if (options_.target.width != 0 && options_.target.height != 0) {
            allocate_for(options_.target);
        }
        // Until the size is known, images are loaded one after the other: the first that loads decides it.
        std::size_t next = 0;
        while (images_.data == nullptr && next < inputs_.size()) {
            check_interrupt();
            load(next++, thread_scratch());
        }
        run_parallel(batch_.num_threads, next, inputs_.size(),
                     [this](std::size_t index) { load(index, thread_scratch()); });
        return finish();
    }

  private:
    void load(std::size_t index, ThreadScratch& scratch) {
        const trace::Span span("load one image");
        Outcome& outcome = outcomes_[index];
        const std::string reason = reason_of_failure([&] { load_image(index, outcome, scratch); });
        outcome.loaded = reason.empty();
        if (!outcome.loaded) {
            outcome.reason = reason;
        }
    }

    void load_image(std::size_t index, Outcome& outcome, ThreadScratch& scratch) {
        const ImageInput& input = inputs_[index];
        if (input.ids != nullptr) {
            IdArrayDecoder decoder(*input.ids, ids_of(options_.format));
            write(index, decoder, crops_.plan(index, decoder.open({}, {}, {}), options_), scratch);
            return;
        }
        const Bytes bytes = read_input(input, scratch);
        const OpenImage image({bytes, {}, nullptr, page_of(bytes, batch_.page)}, batch_.demux, decode_,
                              options_.upright, scratch);
        outcome.backend = &image.backend();
        outcome.dropped_pages = image.shape().more_pages;
        check_bits(image.shape().ids, options_.format);
        const CropAndFlip crop = crops_.of(index, image.shape().upright());
        // The plan is made even if the decoder does all of it: every image is checked in the same way.
        ImagePlan plan = plan_image(image.shape(), options_, crop);
        if (const auto transformed = image.decoder().transform(image.shape(), options_, crop)) {
            plan = plan_image(*transformed, transformed_, {whole(transformed->stored), false});
        }
        write(index, image.decoder(), plan, scratch);
        if (std::string damage = image.decoder().damage(); !damage.empty()) {
            outcome.reason = std::move(damage) + ": what there was of the image is kept";
        }
    }

    void write(std::size_t index, Decoder& decoder, const ImagePlan& plan, ThreadScratch& scratch) {
        if (images_.data == nullptr) {
            allocate_for(plan.canvas);
        } else if (plan.canvas != size_) {
            throw MediaError("it becomes " + dimensions(plan.canvas) + ", but the images before it " +
                             dimensions(size_) + ": give both width and height for a batch of one size");
        }
        if (!crops_.vary(index)) {
            write_image(decoder, plan, options_.format, place(index), scratch);
            return;
        }
        std::uint8_t* const pixels = reserve_pixels(size_, scratch);
        write_image(decoder, plan, options_.format.kept(), pixels, scratch);
        write_varied(pixels, size_, options_, crops_, index, place(index), scratch);
    }

    void allocate_for(Size size) {
        check_size(size, "an output size");
        std::vector<std::size_t> shape = options_.format.shape(inputs_.size(), size);
        images_ = allocate_in(memory_, std::move(shape), options_.format.type());
        size_ = size;
        image_bytes_ = options_.format.image_bytes(size);
    }

    [[nodiscard]] std::uint8_t* place(std::size_t row) const { return images_.data + row * image_bytes_; }

    Batch finish() {
        Batch batch;
        batch.backends.reserve(outcomes_.size());
        std::size_t rows = 0;
        bool any = false;
        for (std::size_t index = 0; index < outcomes_.size(); ++index) {
            Outcome& outcome = outcomes_[index];
            any = any || outcome.loaded;
            batch.dropped_pages = batch.dropped_pages || (outcome.loaded && outcome.dropped_pages);
            if (!outcome.reason.empty()) {
                batch.failures.push_back({index, std::move(outcome.reason)});
            }
            if (!outcome.loaded && !batch_.keep_failed) {
                continue;
            }
            if (!outcome.loaded && images_.data != nullptr) {
                std::memset(place(index), 0, image_bytes_);
                outcome.backend = nullptr;
            } else if (rows != index) {
                std::memmove(place(rows), place(index), image_bytes_);
            }
            batch.backends.push_back(outcome.backend);
            ++rows;
        }
        // Places may be kept although nothing was loaded: zeros of the size that the options give.
        if (any || (batch_.keep_failed && images_.data != nullptr)) {
            images_.shape[0] = rows;
            batch.images = std::move(images_);
        }
        return batch;
    }

    std::span<const ImageInput> inputs_;
    const LoadOptions& options_;
    const CropsAndFlips& crops_;
    const BatchOptions& batch_;
    const Memory* memory_;
    DecodeOptions decode_;
    LoadOptions transformed_;  // The rest of the work if the decoder transforms images by itself.
    Buffer images_;
    Size size_;
    std::size_t image_bytes_ = 0;
    std::vector<Outcome> outcomes_;
};

}  // namespace

std::optional<std::uint64_t> page_of(Bytes bytes, std::optional<int> page) {
    if (!page) {
        return std::nullopt;
    }
    constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
    const auto pages = tiff_pages(bytes, *page < 0 ? kAll : static_cast<std::size_t>(*page) + 1);
    const auto count = static_cast<int>(pages.size());
    if (*page >= count || *page < -count) {
        throw MediaError("there is no page " + std::to_string(*page) + ": it has " + std::to_string(count) +
                         (count == 1 ? " page" : " pages"));
    }
    return pages[static_cast<std::size_t>(*page < 0 ? *page + count : *page)];
}

CropAndFlip CropsAndFlips::of(std::size_t image, Size size) const {
    if (!sizes.empty() && sizes[image] != size) {
        const Size turned{.width = size.height, .height = size.width};
        throw MediaError("it has " + dimensions(size) + " pixels, and its image has " + dimensions(sizes[image]) +
                         (sizes[image] == turned ? ": photos are turned upright as their EXIF data says, unless "
                                                   "exif=False; arrays are (height, width)"
                                                 : ": save it at the size of its image"));
    }
    const bool flip = !flips.empty() && flips[image];
    if (random != nullptr) {
        return {random->draw(random->indices[image], size), flip};
    }
    return {boxes.empty() ? whole(size) : boxes[image], flip};
}

ImagePlan CropsAndFlips::plan(std::size_t image, ImageShape shape, const LoadOptions& options,
                              int least_eighths) const {
    CropAndFlip crop = of(image, shape.upright());
    if (!places.empty()) {
        crop = places[image].crop;
        shape.orientation = turned(shape.orientation, places[image].turn);
    }
    return plan_image(shape, options, crop, least_eighths);
}

Sizes find_sizes(std::span<const ImageInput> inputs, bool upright, const BatchOptions& batch) {
    Sizes found{std::vector<Size>(inputs.size()), {}};
    std::vector<std::string> reasons(inputs.size());
    run_parallel(batch.num_threads, 0, inputs.size(), [&](std::size_t index) {
        ThreadScratch& scratch = thread_scratch();
        reasons[index] = reason_of_failure([&] {
            const Bytes bytes = read_input(inputs[index], scratch);
            const EncodedImage encoded{bytes, {}, nullptr, page_of(bytes, batch.page)};
            found.sizes[index] = OpenImage(encoded, batch.demux, batch.decode, upright, scratch).shape().upright();
        });
    });
    found.failures = failures_of(std::move(reasons));
    return found;
}

Batch load_batch(std::span<const ImageInput> inputs, const LoadOptions& options, const CropsAndFlips& crops,
                 const BatchOptions& batch, const Memory* memory) {
    return BatchLoader(inputs, options, crops, batch, memory).run();
}

}  // namespace spdl
