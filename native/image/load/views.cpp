#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/trace.h"
#include "image/load/batch.h"
#include "image/load/one_image.h"

namespace spdl {
namespace {

// Keeps the decoded rows, for several resizes.
class KeptRows final : public RowSink, public Place {
  public:
    KeptRows(Size size, AlignedBuffer& memory) : height_(size.height), memory_(memory) {}

    RowSink& begin(const DecodedRows& rows) override {
        skipped_ = rgb_bytes(rows.skipped);
        // With the margins that RowRing has, for the same reasons.
        const std::size_t row = kOffset + rgb_bytes(rows.pixels) + kSlack;
        distance_ = (row + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
        memory_.reserve(distance_ * static_cast<std::size_t>(height_));
        return *this;
    }
    std::uint8_t* row(int y) noexcept override {
        return memory_.data() + static_cast<std::size_t>(y) * distance_ + kOffset;
    }
    void commit(int /*y*/, int /*count*/) noexcept override {}

    // Returns the pixel at a place in the decoded part.
    [[nodiscard]] const std::uint8_t* at(int x, int y) const {
        return memory_.data() + static_cast<std::size_t>(y) * distance_ + kOffset + skipped_ + rgb_bytes(x);
    }

  private:
    static constexpr std::size_t kOffset = 16;
    static constexpr std::size_t kSlack = 64;

    int height_;
    AlignedBuffer& memory_;
    std::size_t distance_ = 0;
    std::size_t skipped_ = 0;
};

// A view's plan, and the part of the decoded image that it needs.
struct PlannedView {
    ImagePlan plan;
    Box needed;
};

Box around(const Box& one, const Box& other) {
    return {std::min(one.left, other.left), std::min(one.top, other.top), std::max(one.right, other.right),
            std::max(one.bottom, other.bottom)};
}

class ViewLoader {
  public:
    ViewLoader(std::span<const ImageInput> inputs, std::span<const View> views, const BatchOptions& batch)
        : inputs_(inputs), views_(views), batch_(batch), decode_(batch.decode), reasons_(inputs.size()) {
        decode_.ids = views[0].options->ids;
    }

    LoadedViews run() {
        run_parallel(batch_.num_threads, 0, inputs_.size(), [this](std::size_t index) { load(index); });
        return {failures_of(std::move(reasons_)), dropped_pages_};
    }

  private:
    void load(std::size_t index) {
        const trace::Span span("load one image");
        reasons_[index] = reason_of_failure([&] { load_image(index, thread_scratch()); });
        for (const View& view : views_) {
            if (!reasons_[index].empty()) {
                std::memset(place(view, index), 0, view.options->format.image_bytes(view.options->target));
            }
        }
    }

    void load_image(std::size_t index, ThreadScratch& scratch) {
        const ImageInput& input = inputs_[index];
        if (input.ids != nullptr) {
            for (const View& view : views_) {
                IdArrayDecoder decoder(*input.ids, ids_of(view.options->format));
                write(view, index, decoder, view.changes.plan(index, decoder.open({}, {}, {}), *view.options), scratch);
            }
            return;
        }
        const Bytes bytes = read_input(input, scratch);
        const bool upright = views_[0].options->upright;
        for (const View& view : views_) {
            const OpenImage image({bytes, {}, nullptr, page_of(bytes, batch_.page)}, batch_.demux, decode_, upright,
                                  scratch);
            check_bits(image.shape().ids, view.options->format);
            if (image.shape().more_pages) {
                dropped_pages_ = true;
            }
            const CropAndFlip crop = view.changes.of(index, image.shape().upright());
            std::optional<ImageShape> transformed;
            if (view.changes.places.empty()) {
                transformed = image.decoder().transform(image.shape(), *view.options, crop);
            }
            if (!transformed && views_.size() > 1) {
                write_all(index, image, scratch);
                return;
            }
            // A decoder that transforms makes a single picture of an open image.
            LoadOptions rest;
            rest.fit = Fit::kStretch;
            rest.format = view.options->format;
            const ImagePlan plan = transformed ? plan_image(*transformed, rest, {whole(transformed->stored), false})
                                               : view.changes.plan(index, image.shape(), *view.options);
            write(view, index, image.decoder(), plan, scratch);
        }
    }

    void write_all(std::size_t index, const OpenImage& image, ThreadScratch& scratch) const {
        ImageShape shape = image.shape();
        // Planes are not kept.
        shape.planes = false;
        std::vector<PlannedView> planned = plan_all(index, shape, 1, scratch);
        const auto eighths = [](const PlannedView& view) { return view.plan.eighths; };
        const int most = std::ranges::max(planned, {}, eighths).plan.eighths;
        if (std::ranges::min(planned, {}, eighths).plan.eighths != most) {
            planned = plan_all(index, shape, most, scratch);
        }
        Box needed{};
        for (const PlannedView& view : planned) {
            if (!view.plan.black) {
                needed = needed == Box{} ? view.needed : around(needed, view.needed);
            }
        }
        KeptRows rows(needed.size(), scratch.decoded);
        if (needed != Box{}) {
            image.decoder().decode({most, needed, views_[0].options->format.channels()}, rows);
        }
        for (std::size_t i = 0; i < views_.size(); ++i) {
            write(
                views_[i], index,
                [&](const ArrayFormat& format, std::uint8_t* to) {
                    resize(planned[i], rows, needed, {to, planned[i].plan.canvas, &format}, scratch.resizer);
                },
                scratch);
        }
        scratch.decoded.shrink();
    }

    [[nodiscard]] std::vector<PlannedView> plan_all(std::size_t index, const ImageShape& shape, int least_eighths,
                                                    ThreadScratch& scratch) const {
        std::vector<PlannedView> planned;
        for (const View& view : views_) {
            PlannedView& added =
                planned.emplace_back(view.changes.plan(index, shape, *view.options, least_eighths), Box{});
            if (!added.plan.black) {
                const Box box = scratch.resizer.prepare(added.plan.resampling);
                added.needed = moved(box, added.plan.origin.left, added.plan.origin.top);
            }
        }
        return planned;
    }

    static void resize(const PlannedView& view, const KeptRows& rows, const Box& kept, const Canvas& canvas,
                       Resizer& resizer) {
        if (view.plan.black) {
            resizer.pad(canvas);
            return;
        }
        resizer.prepare(view.plan.resampling);
        feed_rows(resizer, view.needed.size(), canvas, view.plan.target,
                  [&](int row) { return rows.at(view.needed.left - kept.left, view.needed.top - kept.top + row); });
    }

    static void write(const View& view, std::size_t index, Decoder& decoder, const ImagePlan& plan,
                      ThreadScratch& scratch) {
        write(
            view, index,
            [&](const ArrayFormat& format, std::uint8_t* to) { write_image(decoder, plan, format, to, scratch); },
            scratch);
    }

    // `write_to` writes the picture to memory in a format.
    template <typename Write>
    static void write(const View& view, std::size_t index, const Write& write_to, ThreadScratch& scratch) {
        const ArrayFormat& format = view.options->format;
        if (!view.changes.vary(index)) {
            write_to(format, place(view, index));
            return;
        }
        const Size size = view.options->target;
        std::uint8_t* const pixels = reserve_pixels(size, scratch);
        write_to(format.kept(), pixels);
        write_varied(pixels, size, *view.options, view.changes, index, place(view, index), scratch);
    }

    static std::uint8_t* place(const View& view, std::size_t index) {
        return view.to + index * view.options->format.image_bytes(view.options->target);
    }

    std::span<const ImageInput> inputs_;
    std::span<const View> views_;
    const BatchOptions& batch_;
    DecodeOptions decode_;
    std::vector<std::string> reasons_;
    std::atomic<bool> dropped_pages_ = false;
};

}  // namespace

LoadedViews load_views(std::span<const ImageInput> inputs, std::span<const View> views, const BatchOptions& batch) {
    return ViewLoader(inputs, views, batch).run();
}

}  // namespace spdl
