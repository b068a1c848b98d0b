#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "av/packet_list.h"
#include "core/bytes.h"
#include "ffmpeg/demux.h"

namespace spdl {

// Packets as bytes that another process can read: a header with a checksum, what decoders must know of the stream, and
// the packets. Everything is called by FFmpeg's names, not by its numbers, which differ between releases. The bytes may
// come from anywhere: all that is read is checked first.

// What bytes hold.
enum class ArchiveKind : std::uint8_t { kImageFile, kImagePacket, kAudio, kVideo };

struct ArchivedPackets {
    std::string name;  // For messages.
    PacketList list;
};

struct ArchivedImage {
    std::string name;
    Bytes file;          // Of an image that is kept as its file; empty for others.
    ImagePacket packet;  // Of all others.
};

std::vector<std::uint8_t> archive(const std::string& name, const PacketList& list);
std::vector<std::uint8_t> archive(const std::string& name, const ImagePacket& packet);
std::vector<std::uint8_t> archive_file(const std::string& name, Bytes file);

// Return the packets, which stay where they are; `owner` keeps the bytes in place. Throw MediaError if the bytes are
// damaged, hold something else, or need a part that the FFmpeg in use does not have.
ArchivedPackets restore_packets(const std::shared_ptr<const void>& owner, Bytes bytes, Medium medium);
ArchivedImage restore_image(const std::shared_ptr<const void>& owner, Bytes bytes);

}  // namespace spdl
