#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ffmpeg/libav.h"

namespace spdl {

// Remembers where the packets of a sound lie, so that whoever reads again need not begin with the first one: what
// FFmpeg says of packets after a seek may be wrong, so they are told apart by their places in the file and by what is
// in them.
class SoundIndex {
  public:
    // A packet as it is in the file, and where its sound lies, in samples.
    struct Entry {
        std::uint64_t name = 0;
        std::int64_t byte = -1;              // Where it is in the file.
        std::int64_t time = AV_NOPTS_VALUE;  // As the file says, in units of the stream's time base.
        std::int64_t place = 0;
        std::int64_t samples = 0;
        std::uint32_t begin = 0;  // How many of what it decodes to are left out in front,
        std::uint32_t end = 0;    // and behind.
    };

    // Returns what a packet is told apart by.
    static std::uint64_t name(const AVPacket& packet);

    // Takes the next packet. All are added in their order.
    void add(const Entry& entry);

    // Says that all were added.
    void finish() { finished_ = true; }
    [[nodiscard]] bool finished() const { return finished_; }

    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] const Entry& operator[](std::size_t number) const { return entries_[number]; }

    // Returns the packet to begin with so that so many samples are decoded before a place; 0 if there are fewer.
    [[nodiscard]] std::size_t begin(std::int64_t place, std::int64_t samples_before) const;

    // Returns which packet it is; nothing if none or several have the name.
    [[nodiscard]] std::optional<std::size_t> find(std::uint64_t name) const;

  private:
    std::vector<Entry> entries_;
    std::unordered_map<std::uint64_t, std::size_t> numbers_;
    bool finished_ = false;
};

}  // namespace spdl
