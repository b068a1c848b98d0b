#include "av/sound_front.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "av/joined_frames.h"
#include "av/sound_tags.h"
#include "av/wav_size.h"
#include "core/file_boxes.h"
#include "core/little_endian.h"

namespace spdl {
namespace {

// The first bytes of another source, in which a number of 64 bits may be replaced.
class Front final : public ByteSource {
  public:
    Front(std::unique_ptr<ByteSource> source, std::int64_t size) : source_(std::move(source)), size_(size) {}

    void replace(std::int64_t place, std::int64_t number) {
        place_ = place;
        number_ = static_cast<std::uint64_t>(number);
    }

    [[nodiscard]] std::int64_t size() override { return size_; }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        const std::size_t count = source_->read(into, std::min(size, static_cast<std::size_t>(size_ - position_)));
        const std::int64_t end = position_ + static_cast<std::int64_t>(count);
        for (std::int64_t at = std::max(position_, place_); place_ > 0 && at < std::min(end, place_ + 8); ++at) {
            into[at - position_] = static_cast<std::uint8_t>(number_ >> (8 * (at - place_)));
        }
        position_ = end;
        return count;
    }

    void seek(std::int64_t position) override {
        source_->seek(position);
        position_ = position;
    }

  private:
    std::unique_ptr<ByteSource> source_;
    std::int64_t size_;
    std::int64_t position_ = 0;
    std::int64_t place_ = 0;
    std::uint64_t number_ = 0;  // Little-endian.
};

// A source of which small parts are looked at, from its beginning on or from its end backwards. Each read may be a
// request to a server, so a piece is kept in which the next part lies, too.
class Looked {
  public:
    explicit Looked(ByteSource& source) : source_(source), size_(source.size()) {}

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Returns the bytes at a position; nothing if there are fewer.
    template <std::size_t N>
    std::optional<std::array<std::uint8_t, N>> at(std::int64_t position) {
        constexpr auto kCount = static_cast<std::int64_t>(N);
        std::array<std::uint8_t, N> bytes{};
        if (position < 0 || position > size_ - kCount) {
            return std::nullopt;
        }
        if (position < begin_ || position + kCount > begin_ + static_cast<std::int64_t>(piece_.size())) {
            const std::int64_t most = position + kCount <= kFront ? kFront : kPiece;
            begin_ = std::max<std::int64_t>(position + kCount - most, 0);
            piece_.resize(static_cast<std::size_t>(std::min(most, size_ - begin_)));
            read(begin_, piece_.data(), piece_.size());
        }
        std::copy_n(piece_.begin() + (position - begin_), N, bytes.begin());
        return bytes;
    }

  private:
    static constexpr std::int64_t kFront = 64;
    static constexpr std::int64_t kPiece = 8192;

    // What a file that became shorter lacks stays 0.
    void read(std::int64_t position, std::uint8_t* into, std::size_t size) {
        std::fill_n(into, size, std::uint8_t{0});
        source_.seek(position);
        for (std::size_t done = 0, count = 1; done < size && count > 0; done += count) {
            count = source_.read(into + done, size - done);
        }
    }

    ByteSource& source_;
    std::int64_t size_;
    std::int64_t begin_ = 0;
    std::vector<std::uint8_t> piece_;
};

template <std::size_t N>
bool begins(const std::optional<std::array<std::uint8_t, N>>& bytes, std::string_view name) {
    return bytes && spdl::begins(Bytes(*bytes), name);
}

// Whether these are the letters at a position.
template <std::size_t N>
bool has(Looked& file, std::int64_t position, const char (&letters)[N]) {
    return begins(file.at<N - 1>(position), {letters, N - 1});
}

// MPEG audio and ADTS begin with a word for synchronisation, and may have a tag in front.
bool is_stream_of_frames(Looked& file) {
    const auto front = file.at<4>(0);
    if (!front) {
        return false;
    }
    constexpr unsigned kSync = 0xFFE;
    const unsigned word = static_cast<unsigned>((*front)[0]) << 4 | (*front)[1] >> 4;
    constexpr std::array<std::string_view, 8> kNames{"ID3", "\x0B\x77", "fLaC", "wvpk", "TTA", "MAC ", "MP+", "MPCK"};
    return (word & kSync) == kSync ||
           std::ranges::any_of(kNames, [&](std::string_view name) { return begins(front, name); });
}

// The following return where the tag begins that ends at `end`; `end` if it is none of theirs.

std::int64_t before_id3v1(Looked& file, std::int64_t end) {
    if (!has(file, end - kId3v1, "TAG")) {
        return end;
    }
    const std::int64_t begin = end - kId3v1;
    return has(file, begin - kEnhancedId3v1, "TAG+") ? begin - kEnhancedId3v1 : begin;
}

std::int64_t before_id3v2(Looked& file, std::int64_t end) {
    const auto foot = file.at<kId3v2Head>(end - kId3v2Head);
    if (!begins(foot, "3DI")) {
        return end;
    }
    const std::int64_t begin = end - 2 * kId3v2Head - id3v2_contents(*foot).value_or(0);
    return has(file, begin, "ID3") ? begin : end;
}

// Version 1 has no header.
std::int64_t before_ape(Looked& file, std::int64_t end) {
    const auto foot = file.at<kApeHead>(end - kApeHead);
    if (!begins(foot, "APETAGEX")) {
        return end;
    }
    const std::int64_t begin = end - ape_contents(*foot);
    if (begin < 0 || begin > end - kApeHead) {
        return end;
    }
    return has(file, begin - kApeHead, "APETAGEX") ? begin - kApeHead : begin;
}

// Version 2 says its size in six digits; version 1 has at most 5,100 bytes between its words.
std::int64_t before_lyrics(Looked& file, std::int64_t end) {
    constexpr std::int64_t kWord = 9;
    constexpr std::int64_t kDigits = 6;
    constexpr std::int64_t kMost = 5100;
    if (has(file, end - kWord, "LYRICS200")) {
        const auto digits = file.at<kDigits>(end - kWord - kDigits);
        std::int64_t size = 0;
        for (const std::uint8_t digit : digits.value_or(std::array<std::uint8_t, kDigits>{})) {
            size = size * 10 + (digit - '0');
        }
        const std::int64_t begin = end - kWord - kDigits - size;
        return has(file, begin, "LYRICSBEGIN") ? begin : end;
    }
    if (has(file, end - kWord, "LYRICSEND")) {
        for (std::int64_t begin = end - kWord - 11; begin >= end - kWord - 11 - kMost; --begin) {
            if (has(file, begin, "LYRICSBEGIN")) {
                return begin;
            }
        }
    }
    return end;
}

// Files have a handful. Of one that is nothing but tags, no more is looked at.
std::int64_t before_tags(Looked& file, std::int64_t end) {
    constexpr int kMost = 20;
    std::int64_t before = end + 1;
    for (int i = 0; i < kMost && end < before; ++i) {
        before = end;
        for (const auto find : {before_id3v1, before_id3v2, before_ape, before_lyrics}) {
            end = find(file, end);
        }
    }
    return end;
}

// The header of AU says where the sound begins, and how long it is. No size, or the largest, leaves it open.
std::int64_t end_of_au(Looked& file) {
    const auto head = file.at<12>(0);
    BoxReader numbers(Bytes(*head).subspan(4));
    const auto begin = static_cast<std::int64_t>(numbers.take(4));
    const auto size = static_cast<std::int64_t>(numbers.take(4));
    return size == 0 ? file.size() : std::min(begin + size, file.size());
}

// Wave64 has chunks that begin with an identifier and a size, which counts both and is rounded up to 8 bytes. FFmpeg
// refuses a file if something else follows.
std::int64_t end_of_w64(Looked& file) {
    constexpr std::int64_t kHead = 24;
    constexpr int kMostChunks = 100;
    std::int64_t position = 40;
    for (int i = 0; i < kMostChunks; ++i) {
        const auto head = file.at<kHead>(position);
        const auto size = head ? load_le<std::uint64_t>(head->data() + 16) : 0;
        if (size < kHead || size > static_cast<std::uint64_t>(file.size() - position)) {
            break;
        }
        position += static_cast<std::int64_t>((size + 7) / 8 * 8);
        if (begins(head, "data")) {
            return std::min(position, file.size());
        }
    }
    return file.size();
}

// FFmpeg takes a size of 0 for an open one, also where there is no sound, but not one of 64 bits.
std::unique_ptr<ByteSource> wav_with_sizes(std::unique_ptr<ByteSource> source, const WavSizes& sizes) {
    source->seek(0);
    const auto found = static_cast<std::int64_t>(bytes_of_sound(sizes));
    if (sizes.data == 0 && found == 0) {
        return std::make_unique<Front>(std::move(source), static_cast<std::int64_t>(sizes.file - sizes.present));
    }
    if (sizes.place > 0 && is_open_size(sizes.data)) {
        auto mended = std::make_unique<Front>(std::move(source), static_cast<std::int64_t>(sizes.file));
        mended->replace(static_cast<std::int64_t>(sizes.place), found);
        return mended;
    }
    return source;
}

}  // namespace

std::unique_ptr<ByteSource> front_with_sound(std::unique_ptr<ByteSource> source) {
    const std::int64_t size = source->size();
    if (size == ByteSource::kUnknown) {
        return frames_of_joined(std::move(source));
    }
    Looked file(*source);
    std::int64_t end = size;
    const bool is_frames = is_stream_of_frames(file);
    if (is_frames) {
        end = before_tags(file, size);
    } else if (size >= 12 && has(file, 0, ".snd")) {
        end = end_of_au(file);
    } else if (has(file, 0, "riff") && has(file, 24, "wave")) {
        end = end_of_w64(file);
    } else if (has(file, 8, "WAVE")) {
        source->seek(0);
        if (const std::optional<WavSizes> sizes = find_wav_sizes(*source)) {
            return wav_with_sizes(std::move(source), *sizes);
        }
    }
    source->seek(0);
    if (end < size) {
        source = std::make_unique<Front>(std::move(source), end);
    }
    return is_frames ? frames_of_joined(std::move(source)) : std::move(source);
}

}  // namespace spdl
