#pragma once

#include <cstddef>
#include <memory>

#include "av/container.h"
#include "av/packet_list.h"
#include "av/video_index.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Where the packets of a video come from, in the order in which they are decoded.
class PacketFeed {
  public:
    virtual ~PacketFeed() = default;
    PacketFeed(const PacketFeed&) = delete;
    PacketFeed& operator=(const PacketFeed&) = delete;

    // Goes to a position.
    virtual void seek(std::size_t position) = 0;

    // Returns the next packet; null at the end.
    virtual PacketPtr next() = 0;

    // Returns the position of what next() returned last.
    [[nodiscard]] virtual std::size_t position() const = 0;

  protected:
    PacketFeed() = default;
};

// The packets of an open file. A container may lead to another place than it says, and pass packets by behind it: a
// packet counts only where the index has it, and otherwise the file is read up to it.
class ContainerFeed final : public PacketFeed {
  public:
    // All must live as long as the feed. Nobody else may use the container meanwhile.
    ContainerFeed(Container& container, int stream, const VideoIndex& index);

    void seek(std::size_t position) override;
    PacketPtr next() override;
    [[nodiscard]] std::size_t position() const override { return position_; }

  private:
    bool try_seek(std::size_t position);
    void begin();
    PacketPtr read();
    PacketPtr read_next();
    [[nodiscard]] bool is_at(const PacketPtr& packet, std::size_t position) const;

    Container& container_;
    int stream_;
    const VideoIndex& index_;
    PacketPtr found_;           // Read to look at it; next() returns it first.
    std::size_t position_ = 0;  // Of the packet that was read last.
    bool known_ = false;        // Whether that is so.
    bool sought_ = false;       // Whether the container went somewhere since its beginning.
};

// Packets in memory.
class ListFeed final : public PacketFeed {
  public:
    // The list must live as long as the feed.
    explicit ListFeed(const PacketList& list) : list_(list) {}

    void seek(std::size_t position) override { next_ = position; }
    PacketPtr next() override;
    [[nodiscard]] std::size_t position() const override { return next_ - 1; }

  private:
    const PacketList& list_;
    std::size_t next_ = 0;
};

}  // namespace spdl
