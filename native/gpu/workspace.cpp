#include "gpu/workspace.h"

#include <stdexcept>
#include <utility>

#include "core/buffer.h"
#include "cuda/transfer.h"

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

}  // namespace spdl
