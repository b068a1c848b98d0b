#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "av/container.h"
#include "bindings/frames.h"
#include "bindings/gil.h"
#include "bindings/owned_mutex.h"
#include "core/media_error.h"

namespace spdl {

// The Python object over an open file. Any number of threads may use it, one after the other.
class DemuxerObject {
  public:
    DemuxerObject(std::string name, std::unique_ptr<ByteSource> source, const DemuxOptions& options, Probing probing,
                  bool costly = false)
        : name_(std::move(name)), container_(run("Demuxer", name_, [&] {
              return std::make_unique<Container>(std::move(source), options, probing, costly);
          })) {}
    DemuxerObject(const DemuxerObject&) = delete;
    DemuxerObject& operator=(const DemuxerObject&) = delete;
    ~DemuxerObject() { close(); }

    // Runs `work` on the container, without the GIL.
    template <typename Work>
    auto use(const char* call, Work&& work) {
        return run(call, name_, [&] {
            const std::scoped_lock lock(mutex_);
            if (!container_) {
                throw MediaError("the Demuxer was closed");
            }
            return work(*container_);
        });
    }

    void close() {
        std::unique_ptr<Container> closed;
        {
            const ReleasedGil released;
            const std::scoped_lock lock(mutex_);
            closed = std::move(container_);
        }
        const ReleasedGil released;
        closed.reset();
    }

    // Returns the container, which this object then has no more.
    std::unique_ptr<Container> release() {
        return use("VideoReader", [&](Container& /*container*/) { return std::move(container_); });
    }

    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    std::string name_;
    std::unique_ptr<Container> container_;
    OwnedMutex mutex_;
};

void bind_av_demuxer(nanobind::module_& module);

}  // namespace spdl
