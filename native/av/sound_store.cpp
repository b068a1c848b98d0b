#include "av/sound_store.h"

#include <cstring>

namespace spdl {

std::shared_ptr<std::uint8_t> SoundStore::take(std::size_t bytes) {
    if (bytes > kPieceBytes / 4) {
        auto own = std::make_shared<AlignedBuffer>(bytes);
        std::uint8_t* const data = own->data();
        return {std::move(own), data};
    }
    const std::scoped_lock lock(mutex_);
    if (!shared_ || shared_->size() - used_ < bytes) {
        shared_ = std::make_shared<AlignedBuffer>(kPieceBytes);
        used_ = 0;
    }
    std::uint8_t* const data = shared_->data() + used_;
    used_ += bytes;
    return {shared_, data};
}

SoundStore::Piece SoundStore::keep(const std::vector<FramePtr>& frames, std::size_t channels) {
    std::size_t samples = 0;
    for (const FramePtr& frame : frames) {
        samples += static_cast<std::size_t>(frame->nb_samples);
    }
    const std::shared_ptr<std::uint8_t> data = take(channels * samples * sizeof(float));
    std::uint8_t* to = data.get();
    for (std::size_t channel = 0; channel < channels; ++channel) {
        for (const FramePtr& frame : frames) {
            const std::size_t bytes = static_cast<std::size_t>(frame->nb_samples) * sizeof(float);
            std::memcpy(to, frame->extended_data[channel], bytes);
            to += bytes;
        }
    }
    return {data, samples};
}

}  // namespace spdl
