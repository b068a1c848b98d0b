#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/file_parts.h"
#include "core/files.h"
#include "core/non_copyable.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Reads from where libav reads, and goes back there in the end.
class Peek : NonCopyable {
  public:
    Peek(AVIOContext& input, std::int64_t size) : input_(input), size_(size), before_(avio_tell(&input)) {}
    ~Peek() { avio_seek(&input_, before_, SEEK_SET); }

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Returns whether there are that many bytes, and reads them.
    bool read(std::int64_t position, std::span<std::uint8_t> into) {
        const auto count = static_cast<int>(into.size());
        return position >= 0 && position <= size_ - count && avio_seek(&input_, position, SEEK_SET) == position &&
               avio_read(&input_, into.data(), count) == count;
    }

  private:
    AVIOContext& input_;
    std::int64_t size_;
    std::int64_t before_;
};

// Returns whether bytes begin with these letters.
inline bool is(const std::uint8_t* bytes, std::string_view name) {
    return std::memcmp(bytes, name.data(), name.size()) == 0;
}

struct WavSize {
    std::int64_t promised = 0;  // The bytes of sound that the header says.
    std::int64_t present = 0;   // Those that there are.
};

// Reads the sizes of a WAV file from its beginning; nothing of other files. The first chunk of RF64 and BW64 has those
// that do not fit into 32 bits. The source, whose size is known, is then elsewhere.
std::optional<WavSizes> find_wav_sizes(ByteSource& source);

// Returns the size of the sound in a WAV file that was cut off; nothing for complete ones, other files, and headers
// that leave the size open, as a program does that writes to a pipe. FFmpeg does not tell. The source is then at its
// beginning.
std::optional<WavSize> find_cut_wav(ByteSource& source);

// Returns whether a file is WAV and holds the samples that its header promises, and not coded sound, as discs of DTS do
// and recordings of a digital output (S/PDIF). FFmpeg finds out by trying all its formats on more and more of the
// samples, which takes longer than reading a short file. Here only the code words are looked for that such sound
// begins its blocks with. If the source can be read once only, returns false; otherwise it is then at its beginning.
bool is_plain_wav(ByteSource& source);

// Returns whether a NUT file of known size ends within a packet. Its demuxer does not say so: it takes what there is
// for the packet. `last` is where the contents of the last packet begin. The source is at its end then.
bool ends_within_nut_packet(ByteSource& source, std::int64_t last);

// Returns whether a file of MP4 has fragments, which its header does not name the packets of.
[[nodiscard]] bool has_fragments(AVIOContext& input, std::int64_t size);

// Returns whether a file of MP4 or Matroska may be several, concatenated. The index of each does not cover the others.
[[nodiscard]] bool may_be_several(AVFormatContext& context, std::int64_t size);

// Throws DamageError at the end of a file that was cut off. `size` is the file's, `log` is FFmpeg's log at the end, and
// `last_end` is the time at which the packet ends that was read last, if one was read since the last seek.
void check_end(AVFormatContext& context, std::int64_t size, const FfmpegLog& log, std::int64_t last_end,
               const std::optional<WavSize>& cut_wav);

// Returns whether all sound was read that the header of a file promises to the sample. Bytes after it are not sound.
[[nodiscard]] bool has_all(const AVFormatContext& context, std::int64_t last_end);

}  // namespace spdl
