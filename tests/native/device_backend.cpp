// A backend that accepts every input, but decodes into the memory of a GPU. No batch in host memory may ask it to.

#include <memory>
#include <stdexcept>

#include "media/decoder.h"

namespace spdl {
namespace {

class DeviceDecoder final : public Decoder {
  public:
    bool accepts(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                 const DecodeOptions& /*decode*/) const noexcept override {
        return true;
    }

    MemoryKind output() const noexcept override { return MemoryKind::kDevice; }

    ImageShape open(const EncodedImage& /*image*/, const DemuxOptions& /*demux*/,
                    const DecodeOptions& /*decode*/) override {
        throw std::logic_error("an image in host memory was to be decoded on the device");
    }

    void decode(const Region& /*region*/, Place& /*place*/) override {
        throw std::logic_error("an image in host memory was to be decoded on the device");
    }
};

}  // namespace

extern const Backend device_backend;
const Backend device_backend{"device", "decodes into the memory of a GPU",
                             []() -> std::unique_ptr<Decoder> { return std::make_unique<DeviceDecoder>(); }};

}  // namespace spdl
