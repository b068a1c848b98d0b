#include "gpu/image_batch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/errors.h"
#include "core/non_copyable.h"
#include "core/parallel.h"
#include "cuda/kernels.h"
#include "gpu/resize_work.h"
#include "image/orientation/exif_orientation.h"

namespace spdl {
namespace {

using cuda::JpegBackend;
using cuda::JpegStatus;

void check(JpegStatus status, const char* call) {
    const char* const what = "decoding JPEGs on the GPU";
    if (status == JpegStatus::kBadJpeg || status == JpegStatus::kJpegNotSupported ||
        status == JpegStatus::kIncompleteBitstream) {
        try {
            cuda::check(status, call, what);
        } catch (const cuda::CudaError& error) {
            throw JpegRefused(error.what());
        }
    }
    cuda::check(status, call, what);
}

// A decoder of one kind, with its working memory. One thread at a time.
class JpegDecoder : NonCopyable {
  public:
    // Returns null if the device has no JPEG engine that can be used.
    static std::unique_ptr<JpegDecoder> create(JpegBackend backend) {
        std::unique_ptr<JpegDecoder> decoder(new JpegDecoder);
        const cuda::NvJpeg& api = cuda::nvjpeg();
        const JpegStatus status = api.create(backend, nullptr, nullptr, 0, &decoder->handle_);
        // Chips without an engine say so in several ways, and containers may lack what it takes. Kernels decode
        // anywhere.
        if (backend == JpegBackend::kHardware && status != JpegStatus::kSuccess) {
            decoder->handle_ = nullptr;
            return nullptr;
        }
        check(status, "nvjpegCreateEx");
        check(api.create_state(decoder->handle_, &decoder->state_), "nvjpegJpegStateCreate");
        check(api.create_stream(decoder->handle_, &decoder->header_), "nvjpegJpegStreamCreate");
        return decoder;
    }

    ~JpegDecoder() {
        const cuda::NvJpeg& api = cuda::nvjpeg();
        if (header_ != nullptr) {
            api.destroy_stream(header_);
        }
        if (state_ != nullptr) {
            api.destroy_state(state_);
        }
        if (handle_ != nullptr) {
            api.destroy(handle_);
        }
    }

    // Returns whether it decodes an image, as its header tells.
    [[nodiscard]] bool supports(Bytes data) const {
        const cuda::NvJpeg& api = cuda::nvjpeg();
        int unsupported = 1;
        return api.parse_header(handle_, data.data(), data.size(), header_) == JpegStatus::kSuccess &&
               api.batch_supports(handle_, header_, &unsupported) == JpegStatus::kSuccess && unsupported == 0;
    }

    void decode(const std::vector<const JpegJob*>& jobs, int num_threads, cuda::Stream stream) {
        const cuda::NvJpeg& api = cuda::nvjpeg();
        if (batch_ != jobs.size()) {
            batch_ = 0;
            check(api.begin_batch(handle_, state_, static_cast<int>(jobs.size()), num_threads,
                                  cuda::JpegOutput::kUnchanged),
                  "nvjpegDecodeBatchedInitialize");
            batch_ = jobs.size();
        }
        std::vector<const unsigned char*> data;
        std::vector<std::size_t> lengths;
        std::vector<cuda::JpegPlanes> planes;
        for (const JpegJob* const job : jobs) {
            data.push_back(job->data.data());
            lengths.push_back(job->data.size());
            planes.push_back(job->planes);
        }
        check(api.decode_batch(handle_, state_, data.data(), lengths.data(), planes.data(), stream),
              "nvjpegDecodeBatched");
    }

  private:
    cuda::JpegHandle handle_ = nullptr;
    cuda::JpegState state_ = nullptr;
    cuda::JpegStream header_ = nullptr;
    std::size_t batch_ = 0;  // The number of images that it is prepared for; 0 for none.
};

// The resources that one batch at a time uses on a device.
struct Decoders {
    bool made = false;
    std::unique_ptr<JpegDecoder> hardware;  // Null if the chip has no engine.
    std::unique_ptr<JpegDecoder> hybrid;    // Made when there is work for it.
};

struct Pool {
    std::mutex mutex;
    std::map<cuda::Device, std::vector<Decoders>> unused;
};

// Never destroyed: threads may decode until the process ends, and then CUDA may be gone.
Pool& pool() {
    static Pool& instance = *new Pool;
    return instance;
}

Decoders take(cuda::Device device) {
    Pool& shared = pool();
    const std::scoped_lock lock(shared.mutex);
    std::vector<Decoders>& unused = shared.unused[device];
    if (unused.empty()) {
        return {};
    }
    Decoders decoders = std::move(unused.back());
    unused.pop_back();
    return decoders;
}

void give_back(cuda::Device device, Decoders decoders) {
    Pool& shared = pool();
    const std::scoped_lock lock(shared.mutex);
    shared.unused[device].push_back(std::move(decoders));
}

using cuda::kernels::Byte;

constexpr Backend kNvjpeg{"nvjpeg", "decodes JPEG only", nullptr};

// The most device memory for planes and pixels at a time: larger batches are decoded part by part.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 29;

// Planes are laid out a little larger than they are, since engines write whole blocks.
constexpr std::size_t kPitch = 256;
constexpr std::size_t kBlock = 16;

std::size_t round_up(std::size_t value, std::size_t to) {
    return (value + to - 1) / to * to;
}

// A JPEG that the GPU decodes.
struct Candidate {
    JpegPlanesShape shape;
    std::unique_ptr<ResizeWork> work;

    [[nodiscard]] Size chroma() const {
        const Size grid = shape.grid;
        return {(shape.size.width + grid.width - 1) / grid.width, (shape.size.height + grid.height - 1) / grid.height};
    }
};

std::size_t pitch_of(Size plane) {
    return round_up(static_cast<std::size_t>(plane.width), kPitch);
}

std::size_t plane_bytes(Size plane) {
    return pitch_of(plane) * round_up(static_cast<std::size_t>(plane.height), kBlock);
}

class GpuBatchLoader {
  public:
    GpuBatchLoader(std::span<const ImageInput> inputs, const LoadOptions& options, const CropsAndFlips& crops,
                   const BatchOptions& batch, const GpuTarget& target)
        : inputs_(inputs),
          options_(options),
          crops_(crops),
          batch_(batch),
          target_(target),
          canvas_(options.center == Size{} ? options.target : options.center),
          image_bytes_(options.format.image_bytes(canvas_)),
          readers_(inputs.size()),
          data_(inputs.size()),
          candidates_(inputs.size()) {}

    std::optional<GpuBatch> run(std::size_t least) {
        run_parallel(batch_.num_threads, 0, inputs_.size(), [this](std::size_t index) { inspect(index); });
        for (std::size_t index = 0; index < inputs_.size(); ++index) {
            (candidates_[index].work ? for_gpu_ : for_cpu_).push_back(index);
        }
        if (for_gpu_.size() < least) {
            return std::nullopt;
        }
        load_on_cpu();
        if (std::ranges::count(rows_, kNoRow) == std::ssize(rows_)) {
            return std::move(result_);
        }
        try {
            load_on_device();
        } catch (const JpegRefused&) {
            // Whichever image it was: our own decoder says what is wrong with it.
            return std::nullopt;
        }
        return std::move(result_);
    }

  private:
    static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);

    // Reads an image, and finds out whether it is one for the GPU. The CPU path reports its errors.
    void inspect(std::size_t index) {
        const ImageInput& input = inputs_[index];
        try {
            data_[index] = input.path.data() == nullptr ? input.bytes : readers_[index].read(input.path);
            const std::optional<JpegPlanesShape> shape = planes_for_gpu(data_[index]);
            const std::int64_t most = batch_.decode.max_pixels;
            if (!shape || static_cast<std::int64_t>(shape->size.width) * shape->size.height > most) {
                return;
            }
            ImageShape image;
            image.stored = shape->size;
            image.chroma_grid = shape->grid;
            if (options_.upright) {
                image.orientation = exif_orientation(data_[index]);
            }
            const ImagePlan plan = plan_image(image, options_, crop_of(index, image.upright()));
            candidates_[index] = {*shape, std::make_unique<ResizeWork>(plan, tables_)};
        } catch (const MediaError&) {
            candidates_[index] = {};
        }
    }

    [[nodiscard]] CropAndFlip crop_of(std::size_t index, Size size) const {
        const bool flip = !crops_.flips.empty() && crops_.flips[index];
        if (crops_.random != nullptr) {
            return {crops_.random->draw(crops_.random->indices[index], size), flip};
        }
        return {crops_.boxes.empty() ? whole(size) : crops_.boxes[index], flip};
    }

    // Loads the other images, and so finds out how many there will be and where each goes.
    void load_on_cpu() {
        Batch loaded = for_cpu_.empty() ? Batch() : load_others();
        others_ = std::move(loaded.images);
        std::vector<bool> failed(inputs_.size());
        for (Failure& failure : loaded.failures) {
            const std::size_t index = for_cpu_[failure.index];
            // An image that is kept in part has a backend.
            failed[index] = loaded.backends[failure.index] == nullptr;
            result_.failures.push_back({index, std::move(failure.reason)});
        }
        rows_.assign(inputs_.size(), kNoRow);
        std::vector<const Backend*> backends(inputs_.size(), &kNvjpeg);
        for (std::size_t i = 0; i < for_cpu_.size(); ++i) {
            backends[for_cpu_[i]] = loaded.backends[i];
        }
        std::size_t rows = 0;
        for (std::size_t index = 0; index < inputs_.size(); ++index) {
            if (!failed[index] || batch_.keep_failed) {
                rows_[index] = rows++;
                result_.backends.push_back(backends[index]);
            }
        }
        result_.shape = options_.format.shape(rows, canvas_);
    }

    Batch load_others() {
        std::vector<ImageInput> inputs;
        CropsAndFlips crops{{}, nullptr, {}, crops_.jitter};
        std::optional<RandomCrop> random;
        if (crops_.random != nullptr) {
            random = *crops_.random;
            random->indices.clear();
            crops.random = &*random;
        }
        for (const std::size_t index : for_cpu_) {
            // Inputs are not read again, unless reading failed.
            inputs.push_back(data_[index].data() == nullptr ? inputs_[index] : ImageInput{{}, data_[index]});
            if (random) {
                random->indices.push_back(crops_.random->indices[index]);
            }
            if (!crops_.boxes.empty()) {
                crops.boxes.push_back(crops_.boxes[index]);
            }
            if (!crops_.flips.empty()) {
                crops.flips.push_back(crops_.flips[index]);
            }
        }
        BatchOptions batch = batch_;
        batch.keep_failed = true;
        return load_batch(inputs, options_, crops, batch, nullptr);
    }

    void load_on_device() {
        const cuda::Kernels& kernels = cuda::load_kernels(target_.device, target_.kernel_folder);
        result_.memory = target_.allocate(image_bytes_ * result_.shape[0]);
        const cuda::ContextScope scope(target_.device);
        Workspace workspace(target_.device, target_.stream);
        values_ = upload_values(workspace, options_.format);
        for (std::size_t first = 0; first < for_gpu_.size();) {
            check_interrupt();
            first = load_part(first, kernels, workspace);
        }
        workspace.finish();
        for (std::size_t i = 0; i < for_cpu_.size(); ++i) {
            if (const std::size_t row = rows_[for_cpu_[i]]; row != kNoRow) {
                const Buffer image{others_.owner, others_.data + i * image_bytes_, {image_bytes_}};
                cuda::copy_to_device(image, result_.memory.pointer + row * image_bytes_, target_.device,
                                     target_.stream);
            }
        }
    }

    // Decodes images from `first` on, as many as fit, and returns the next one.
    std::size_t load_part(std::size_t first, const cuda::Kernels& kernels, Workspace& workspace) {
        std::size_t end = first;
        std::size_t bytes = 0;
        std::size_t table_bytes = 0;
        for (; end < for_gpu_.size(); ++end) {
            const Candidate& candidate = candidates_[for_gpu_[end]];
            const std::size_t more = workspace_bytes(candidate);
            if (end > first && bytes + more > kMostWorkspace) {
                break;
            }
            bytes += more;
            table_bytes += candidate.work->table_bytes();
        }
        table_bytes +=
            (end - first) * (sizeof(cuda::kernels::JpegImage) + UploadArena::kAlignment + CanvasWork::kBytes);
        const cuda::DevicePointer pixels = workspace.allocate(bytes);
        const cuda::DevicePointer tables = workspace.allocate(table_bytes);

        Part part{UploadArena(tables), CanvasWork(options_.format, canvas_, values_), {}, {}, {}};
        std::size_t at = pixels;
        for (std::size_t i = first; i < end; ++i) {
            at = describe(for_gpu_[i], at, part);
        }
        cuda::kernels::JpegArguments convert{part.arena.add(part.images), order_of(options_.format.channels())};
        part.canvases.place(part.arena);
        workspace.upload(part.arena.bytes(), tables, table_bytes);
        decode_jpegs(target_.device, part.jobs, batch_.num_threads, target_.stream);
        cuda::launch(kernels.convert_planes, part.largest.width, part.largest.height, static_cast<int>(end - first),
                     &convert, target_.stream, "convert_planes");
        part.canvases.run(kernels, target_.stream);
        return end;
    }

    // The arguments of nvJPEG and the kernels for a part of the batch.
    struct Part {
        UploadArena arena;
        CanvasWork canvases;
        std::vector<JpegJob> jobs;
        std::vector<cuda::kernels::JpegImage> images;
        Size largest;
    };

    static std::size_t workspace_bytes(const Candidate& candidate) {
        const Size size = candidate.shape.size;
        return plane_bytes(size) + (candidate.shape.chroma ? 2 * plane_bytes(candidate.chroma()) : 0) +
               round_up(rgb_bytes(size), kPitch) + round_up(candidate.work->between_bytes(), kPitch);
    }

    // Lays an image out from `at` on, and returns the place after it.
    std::size_t describe(std::size_t index, std::size_t at, Part& part) const {
        const Candidate& candidate = candidates_[index];
        const Size size = candidate.shape.size;
        JpegJob job{data_[index], {}};
        const auto add_plane = [&](std::size_t number, Size plane) {
            job.planes.plane[number] = reinterpret_cast<unsigned char*>(at);
            job.planes.pitch[number] = pitch_of(plane);
            at += plane_bytes(plane);
        };
        add_plane(0, size);
        cuda::kernels::JpegImage image{};
        if (candidate.shape.chroma) {
            const Size chroma = candidate.chroma();
            add_plane(1, chroma);
            add_plane(2, chroma);
            image.blue = job.planes.plane[1];
            image.red = job.planes.plane[2];
            image.chroma_width = chroma.width;
            image.chroma_height = chroma.height;
            image.chroma_pitch = static_cast<int>(job.planes.pitch[1]);
        }
        image.luma = job.planes.plane[0];
        image.luma_pitch = static_cast<int>(job.planes.pitch[0]);
        image.width = size.width;
        image.height = size.height;
        image.across = candidate.shape.grid.width;
        image.down = candidate.shape.grid.height;
        image.pixels = reinterpret_cast<Byte*>(at);
        at += round_up(rgb_bytes(size), kPitch);
        auto* const between = reinterpret_cast<Byte*>(at);
        at += round_up(candidate.work->between_bytes(), kPitch);

        auto* const to = reinterpret_cast<Byte*>(result_.memory.pointer + rows_[index] * image_bytes_);
        part.canvases.add(part.arena, *candidate.work, image.pixels, size.width, between, to);
        part.jobs.push_back(job);
        part.images.push_back(image);
        part.largest = {std::max(part.largest.width, size.width), std::max(part.largest.height, size.height)};
        return at;
    }

    std::span<const ImageInput> inputs_;
    const LoadOptions& options_;
    const CropsAndFlips& crops_;
    const BatchOptions& batch_;
    const GpuTarget& target_;
    Size canvas_;
    std::size_t image_bytes_;
    std::vector<FileReader> readers_;
    std::vector<Bytes> data_;  // Without memory if it could not be read.
    SharedTables tables_;
    std::vector<Candidate> candidates_;
    std::vector<std::size_t> for_gpu_;
    std::vector<std::size_t> for_cpu_;
    std::vector<std::size_t> rows_;  // Where each image goes; kNoRow for one that is left out.
    Buffer others_;                  // What the CPU loaded.
    cuda::DevicePointer values_ = 0;
    GpuBatch result_;
};

}  // namespace

void decode_jpegs(cuda::Device device, std::span<const JpegJob> jobs, int num_threads, cuda::Stream stream) {
    // Decoders that failed may be in any state; they are not given back.
    Decoders decoders = take(device);
    if (!decoders.made) {
        decoders.hardware = JpegDecoder::create(JpegBackend::kHardware);
        decoders.made = true;
    }
    std::vector<const JpegJob*> for_hardware;
    std::vector<const JpegJob*> for_hybrid;
    for (const JpegJob& job : jobs) {
        const bool supported = decoders.hardware && decoders.hardware->supports(job.data);
        (supported ? for_hardware : for_hybrid).push_back(&job);
    }
    if (!for_hardware.empty()) {
        decoders.hardware->decode(for_hardware, num_threads, stream);
    }
    if (!for_hybrid.empty()) {
        if (!decoders.hybrid) {
            decoders.hybrid = JpegDecoder::create(JpegBackend::kGpuHybrid);
        }
        decoders.hybrid->decode(for_hybrid, num_threads, stream);
    }
    give_back(device, std::move(decoders));
}

std::optional<GpuBatch> load_batch_on_gpu(std::span<const ImageInput> inputs, const LoadOptions& options,
                                          const CropsAndFlips& crops, const BatchOptions& batch, std::size_t least,
                                          const GpuTarget& target) {
    const Size size = options.center == Size{} ? options.target : options.center;
    const bool known = size.width > 0 && size.height > 0 && options.target.width > 0 && options.target.height > 0;
    if (!known || crops.jitter != nullptr) {
        return std::nullopt;
    }
    check_size(size, "an output size");
    return GpuBatchLoader(inputs, options, crops, batch, target).run(least);
}

}  // namespace spdl
