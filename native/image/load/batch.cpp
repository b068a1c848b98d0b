#include "image/load/batch.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/media_error.h"
#include "core/parallel.h"
#include "ffmpeg/filter_description.h"
#include "ffmpeg/filter_graph.h"
#include "image/load/image_reader.h"
#include "image/load/write_image.h"

namespace spdl {
namespace {

std::string describe(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

// What became of one image.
struct Outcome {
    bool loaded = false;
    Backend backend = Backend::kAny;
    std::string reason;
};

class BatchLoader {
  public:
    BatchLoader(std::span<const Source> sources, const Request& request, const Views& views, const Reading& reading,
                const Memory* memory)
        : sources_(sources),
          request_(request),
          views_(views),
          reading_(reading),
          memory_(memory),
          outcomes_(sources.size()) {
        filtered_.format = request.format;
        filtered_.fit = Fit::kStretch;
    }

    Batch run() {
        if (request_.center != Size{}) {
            // Known beforehand only where it is cut out of a known size; then it has that very size.
            if (request_.target.width != 0 && request_.target.height != 0 && request_.center.width != 0 &&
                request_.center.height != 0) {
                allocate_for(request_.center);
            }
        } else if (request_.target.width != 0 && request_.target.height != 0) {
            allocate_for(request_.target);
        }
        // Until the size is known, one image after the other: the first that can be loaded decides it.
        std::size_t next = 0;
        while (images_.data == nullptr && next < sources_.size()) {
            load(next++, thread_scratch());
        }
        run_parallel(reading_.num_threads, next, sources_.size(),
                     [this](std::size_t index) { load(index, thread_scratch()); });
        return finish();
    }

  private:
    void load(std::size_t index, ThreadScratch& scratch) {
        Outcome& outcome = outcomes_[index];
        try {
            load_image(index, outcome, scratch);
            outcome.loaded = true;
        } catch (const ArrayError&) {
            throw;
        } catch (const MediaError& error) {
            outcome.reason = error.what();
        }
    }

    void load_image(std::size_t index, Outcome& outcome, ThreadScratch& scratch) {
        const Source& source = sources_[index];
        const bool in_memory = source.path.data() == nullptr;
        const Bytes bytes = in_memory ? source.bytes : scratch.file.read(source.path);
        ImageReader reader(bytes, reading_.demux, reading_.decode, request_.upright, scratch);
        outcome.backend = reader.frame() ? Backend::kFfmpeg : Backend::kTurbo;
        const View view = view_of(index, reader.shape().upright());
        if (reading_.decode.backend == Backend::kFfmpeg) {
            // Planned all the same, for it to be checked in the same way.
            plan_image(reader.shape(), request_, view);
            const AVFrame& frame = *reader.frame();
            ImageReader filtered(filter_frame(frame, {0, 1}, ffmpeg_filters(reader.shape(), request_, view)),
                                 Orientation(), scratch);
            const Size size = filtered.shape().stored;
            write(index, filtered, plan_image(filtered.shape(), filtered_, {whole(size), false}), scratch);
            return;
        }
        write(index, reader, plan_image(reader.shape(), request_, view), scratch);
        if (reader.truncated()) {
            outcome.reason = "the data is truncated: what there was of the image is kept";
        }
    }

    [[nodiscard]] View view_of(std::size_t index, Size size) const {
        const bool flip = !views_.flips.empty() && views_.flips[index];
        if (views_.random != nullptr) {
            return {views_.random->draw(views_.random->indices[index], size), flip};
        }
        return {views_.boxes.empty() ? whole(size) : views_.boxes[index], flip};
    }

    void write(std::size_t index, ImageReader& reader, const ImagePlan& plan, ThreadScratch& scratch) {
        if (images_.data == nullptr) {
            allocate_for(plan.canvas);
        } else if (plan.canvas != size_) {
            throw MediaError("it becomes " + describe(plan.canvas) + ", but the images before it " + describe(size_) +
                             ": give both width and height for a batch of one size");
        }
        write_image(reader, plan, request_.format, place(index), scratch);
    }

    void allocate_for(Size size) {
        check_size(size, "an output size");
        std::vector<std::size_t> shape = request_.format.shape(sources_.size(), size);
        images_ = memory_ == nullptr ? allocate(std::move(shape), request_.format.type())
                                     : allocate_in(*memory_, std::move(shape), request_.format.type());
        size_ = size;
        image_bytes_ = request_.format.image_bytes(size);
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
            if (!outcome.reason.empty()) {
                batch.failures.push_back({index, std::move(outcome.reason)});
            }
            if (!outcome.loaded && !reading_.keep_failed) {
                continue;
            }
            if (!outcome.loaded && images_.data != nullptr) {
                std::memset(place(index), 0, image_bytes_);
                outcome.backend = Backend::kAny;
            } else if (rows != index) {
                std::memmove(place(rows), place(index), image_bytes_);
            }
            batch.backends.push_back(outcome.backend);
            ++rows;
        }
        if (any) {
            images_.shape[0] = rows;
            batch.images = std::move(images_);
        }
        return batch;
    }

    std::span<const Source> sources_;
    const Request& request_;
    const Views& views_;
    const Reading& reading_;
    const Memory* memory_;
    Request filtered_;  // What is left to do where FFmpeg's filters do the rest.
    Buffer images_;
    Size size_;
    std::size_t image_bytes_ = 0;
    std::vector<Outcome> outcomes_;
};

}  // namespace

Batch load_batch(std::span<const Source> sources, const Request& request, const Views& views, const Reading& reading,
                 const Memory* memory) {
    return BatchLoader(sources, request, views, reading, memory).run();
}

}  // namespace spdl
