#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "av/packets.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Takes out what an ArchiveWriter put in. Throws MediaError if it cannot be there.
class ArchiveReader {
  public:
    explicit ArchiveReader(Bytes bytes) : rest_(bytes) {}

    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
        return value;
    }

    template <typename T>
    T number(const char* what, T least, T most) {
        const T value = number<T>();
        if (value < least || value > most) {
            throw MediaError(std::string("the pickled packets are damaged: ") + what + " is " + std::to_string(value));
        }
        return value;
    }

    // Returns a name of FFmpeg's.
    std::string text() {
        const Bytes bytes = take(number<std::uint32_t>());
        if (!std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte >= ' ' && byte <= '~'; })) {
            throw MediaError("the pickled packets are damaged: a name holds a byte that names do not have");
        }
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    // Returns a user's text, in UTF-8.
    std::string user_text() {
        const Bytes bytes = take(number<std::uint32_t>());
        if (!is_utf8(bytes)) {
            throw MediaError("the pickled packets are damaged: a text is not in UTF-8");
        }
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    Bytes data(std::size_t padding = 0) {
        const std::uint64_t size = number<std::uint64_t>();
        if (size > rest_.size()) {
            refuse();
        }
        const Bytes bytes = take(static_cast<std::size_t>(size));
        const Bytes zeros = take(padding);
        if (!std::ranges::all_of(zeros, [](std::uint8_t byte) { return byte == 0; })) {
            refuse();
        }
        return bytes;
    }

    // Throws if something is left.
    void finish() const {
        if (!rest_.empty()) {
            throw MediaError("the pickled packets are damaged: more follows than there should be");
        }
    }

  private:
    [[noreturn]] static void refuse() { throw MediaError("the pickled packets are damaged: a length is wrong"); }

    Bytes take(std::size_t size) {
        if (size > rest_.size()) {
            refuse();
        }
        const Bytes taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    Bytes rest_;
};

static_assert(std::endian::native == std::endian::little, "archives hold numbers with the lowest byte first");

// Puts values one after another.
class ArchiveWriter {
  public:
    template <typename T>
    void number(T value) {
        static_assert(std::is_integral_v<T>);
        const std::size_t at = bytes_.size();
        bytes_.resize(at + sizeof(value));
        std::memcpy(bytes_.data() + at, &value, sizeof(value));
    }

    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        bytes_.insert(bytes_.end(), value.begin(), value.end());
    }

    // Zeros follow, as decoders need them that read in place.
    void data(Bytes value, std::size_t padding = 0) {
        number(static_cast<std::uint64_t>(value.size()));
        bytes_.insert(bytes_.end(), value.begin(), value.end());
        bytes_.resize(bytes_.size() + padding);
    }

    void reserve(std::size_t size) { bytes_.reserve(bytes_.size() + size); }

    std::vector<std::uint8_t>& bytes() { return bytes_; }

  private:
    std::vector<std::uint8_t> bytes_;
};

// The parameters of a stream that decoders need, in an archive.

// Data beside packets, such as how many samples a decoder leaves out. Only kinds that change what is decoded.
void write_side_data(ArchiveWriter& writer, const AVPacket& packet);

// Packets as bytes that another process can read: a header with a checksum, what decoders must know of the stream, and
// the packets. Everything is called by FFmpeg's names, not by its numbers, which differ between releases. The bytes may
// come from anywhere: all that is read is checked first.

// The kind of content in bytes.
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

// Return the packets, which are not copied; `owner` keeps the bytes in place. Throw MediaError if the bytes are
// damaged, hold something else, or need a part that the FFmpeg in use does not have.
ArchivedPackets restore_packets(const std::shared_ptr<const void>& owner, Bytes bytes, Medium medium);
ArchivedImage restore_image(const std::shared_ptr<const void>& owner, Bytes bytes);

}  // namespace spdl
