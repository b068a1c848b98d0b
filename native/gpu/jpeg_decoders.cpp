#include "gpu/jpeg_decoders.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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
class JpegDecoder {
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

    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;
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
    JpegDecoder() = default;

    cuda::JpegHandle handle_ = nullptr;
    cuda::JpegState state_ = nullptr;
    cuda::JpegStream header_ = nullptr;
    std::size_t batch_ = 0;  // The number of images that it is prepared for; 0 for none.
};

// What one batch at a time uses on a device.
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

}  // namespace spdl
