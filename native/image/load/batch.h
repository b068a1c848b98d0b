#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/errors.h"
#include "core/files.h"
#include "core/geometry.h"
#include "image/augment/draws.h"
#include "image/plan/image_plan.h"
#include "media/decoder.h"
#include "media/options.h"

namespace spdl {

// An array (H, W) of ids in memory, in any order of memory.
struct IdArray {
    const std::uint8_t* data = nullptr;
    Size size;
    std::array<std::ptrdiff_t, 2> strides{};  // In bytes.
    ElementType type = ElementType::kUint8;
};

// An encoded image: the file at `path`, as FileReader takes it, or bytes in memory if `path` has no data. Or an array
// of ids that somebody else keeps in place.
struct ImageInput {
    std::string_view path;
    Bytes bytes;
    const IdArray* ids = nullptr;
};

// The variation of each image: its crop, flip and colours.
struct CropsAndFlips {
    std::vector<Box> boxes;                 // One for each image, or none: whole images.
    const RandomCrop* random = nullptr;     // Draws the boxes instead.
    std::vector<bool> flips;                // One for each image, or none.
    const ColorJitter* jitter = nullptr;    // Changes the colours, if the format has any.
    const PixelAugment* augment = nullptr;  // Changes the pixels, instead.
    std::vector<Size> sizes{};              // The size that each image has to have, upright, or none.
    std::vector<ImagePlace> places{};       // One for each image, instead of boxes and flips, or none.

    // Returns whether pixels change between the resize and the array's format.
    [[nodiscard]] bool vary(std::size_t image) const {
        return jitter != nullptr || augment != nullptr || (!places.empty() && !places[image].moves.empty());
    }

    // Throws MediaError if an image of that size is not the one that the changes are for.
    [[nodiscard]] CropAndFlip of(std::size_t image, Size size) const;

    // Returns the plan of an image that its decoder does not resize by itself. Throws MediaError.
    [[nodiscard]] ImagePlan plan(std::size_t image, ImageShape shape, const LoadOptions& options,
                                 int least_eighths = 1) const;
};

// How the images of a batch are read.
struct BatchOptions {
    DemuxOptions demux;
    DecodeOptions decode;
    int num_threads = 1;
    bool keep_failed = false;  // Images that fail become zeros instead of being left out.
    std::optional<int>
        page{};  // The page of each TIFF; counted from the end if it is negative. None: the first picture.
};

// Returns the place of a page of a TIFF, counted from the end if it is negative; nothing for the first picture of any
// image. Throws MediaError if there is no such page.
std::optional<std::uint64_t> page_of(Bytes bytes, std::optional<int> page);

struct Batch {
    Buffer images;  // Without memory if nothing could be loaded, unless places are kept and their size is known.
    std::vector<Failure> failures;
    std::vector<const Backend*> backends;  // What decoded each image; null for one that failed and was kept.
    bool dropped_pages = false;            // Of some image, only the first of several pages was loaded.
};

struct Sizes {
    std::vector<Size> sizes;  // 0 x 0 for those that fail.
    std::vector<Failure> failures;
};

// Finds the sizes of the images in their headers, upright if that is asked for.
Sizes find_sizes(std::span<const ImageInput> inputs, bool upright, const BatchOptions& batch);

// Reads, decodes and resizes every input into its row of one batch, in the order of the inputs. If there is a memory,
// the batch is made in it. Throws ArrayError if there is no room for the batch: before anything is read, if `options`
// gives both sides.
Batch load_batch(std::span<const ImageInput> inputs, const LoadOptions& options, const CropsAndFlips& crops,
                 const BatchOptions& batch, const Memory* memory);

// One picture of each image of a batch. Its options give both sides.
struct View {
    const LoadOptions* options;
    CropsAndFlips changes;
    std::uint8_t* to = nullptr;  // Where the pictures of all images go, one after the other.
};

struct LoadedViews {
    std::vector<Failure> failures;
    bool dropped_pages = false;  // As in Batch.
};

// Reads and decodes every input once, and writes all views of it. Those of an image that fails are zeros.
LoadedViews load_views(std::span<const ImageInput> inputs, std::span<const View> views, const BatchOptions& batch);

}  // namespace spdl
