#include "av/joined_frames.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "av/flac_frame.h"
#include "av/mpeg_audio_frame.h"
#include "av/sound_tags.h"
#include "core/bytes.h"
#include "core/file_boxes.h"

namespace spdl {
namespace {

// The most that is looked at to know what begins at a place.
constexpr std::size_t kLook = 32;

// RFC 9639, sections 7 and 8: a word, and a block of one size that is the first one, and may be the last.
bool is_flac_header(Bytes bytes) {
    return begins(bytes, "fLaC") && bytes.size() >= 8 && (bytes[4] & 0x7F) == 0 && bytes[5] == 0 && bytes[6] == 0 &&
           bytes[7] == 34;
}

// Returns where a word stands behind the first byte; the size of all if nowhere.
std::size_t next_of(Bytes bytes, std::string_view word) {
    for (std::size_t at = 1; at < bytes.size(); ++at) {
        // The bytes of sound are looked through by the C library, which is many times as fast as a loop over them.
        const void* first = std::memchr(bytes.data() + at, word.front(), bytes.size() - at);
        if (first == nullptr) {
            break;
        }
        at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(first) - bytes.data());
        if (begins(bytes.subspan(at), word)) {
            return at;
        }
    }
    return bytes.size();
}

// Returns where a header of FLAC, or a tag, may begin behind the first byte; the size of all if nowhere.
std::size_t next_word(Bytes bytes) {
    const std::size_t tag = next_of(bytes, "ID3");
    return std::min(tag, next_of(bytes.first(tag), "fLaC"));
}

class FramesOfJoined final : public ByteSource {
  public:
    explicit FramesOfJoined(std::unique_ptr<ByteSource> source) : source_(std::move(source)), size_(source_->size()) {}

    // What is left out is known only when it has been read. Then the end comes earlier.
    [[nodiscard]] std::int64_t size() override { return size_; }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        std::size_t done = 0;
        // What is at hand is handed over at once: a source may have to wait for more.
        while (done < size && (done == 0 || held() > kLook)) {
            if (open_ == 0) {
                look();
            }
            if (!fill(1)) {
                break;
            }
            const auto count = static_cast<std::size_t>(
                std::min({open_, static_cast<std::int64_t>(held()), static_cast<std::int64_t>(size - done)}));
            std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(used_), count, into + done);
            used_ += count;
            done += count;
            position_ += static_cast<std::int64_t>(count);
            open_ -= static_cast<std::int64_t>(count);
        }
        return done;
    }

    void seek(std::int64_t position) override {
        place_ = std::min(position + left_out_before(position), size_);
        source_->seek(place_);
        position_ = position;
        piece_.clear();
        used_ = 0;
        open_ = 0;
        in_frames_ = false;
        ended_ = false;
    }

  private:
    enum class Kind { kUnknown, kMpeg, kFlac, kOther };

    static constexpr std::int64_t kAll = INT64_MAX;
    static constexpr std::size_t kPiece = 1 << 15;
    static constexpr std::int64_t kMostHeld = 1 << 24;

    [[nodiscard]] std::size_t held() const { return piece_.size() - used_; }
    [[nodiscard]] Bytes ahead() const { return Bytes(piece_).subspan(used_); }

    [[nodiscard]] std::int64_t left_out_before(std::int64_t position) const {
        const auto behind = left_out_.lower_bound(position);
        return behind == left_out_.begin() ? 0 : std::prev(behind)->second;
    }

    // Reads on until so many bytes are at hand. Returns whether they are.
    bool fill(std::size_t size) {
        // Only so much is moved as was used, however often little more is asked for.
        if (held() < size && used_ >= held()) {
            piece_.erase(piece_.begin(), piece_.begin() + static_cast<std::ptrdiff_t>(used_));
            used_ = 0;
        }
        while (held() < size && !ended_) {
            const std::size_t before = piece_.size();
            piece_.resize(before + kPiece);
            const std::size_t count = source_->read(piece_.data() + before, kPiece);
            piece_.resize(before + count);
            place_ += static_cast<std::int64_t>(count);
            ended_ = count == 0;
        }
        return held() >= size;
    }

    // Returns what stands so many bytes ahead: less than is looked at, or nothing, at the end. Returns no value behind
    // the end, nor where too much would have to be held, since the source cannot go back.
    std::optional<Bytes> far(std::int64_t offset) {
        if (size_ == kUnknown && offset <= kMostHeld) {
            fill(static_cast<std::size_t>(offset) + kLook);
        }
        const auto at_hand = static_cast<std::int64_t>(held());
        if (offset + static_cast<std::int64_t>(kLook) <= at_hand || (ended_ && offset <= at_hand)) {
            const Bytes rest = ahead().subspan(static_cast<std::size_t>(offset));
            return rest.first(std::min(rest.size(), kLook));
        }
        const std::int64_t place = place_ - at_hand + offset;
        if (size_ == kUnknown || place > size_) {
            return std::nullopt;
        }
        source_->seek(place);
        std::size_t done = 0;
        for (std::size_t count = 1; done < kLook && count > 0; done += count) {
            count = source_->read(far_.data() + done, kLook - done);
        }
        source_->seek(place_);
        return Bytes(far_).first(done);
    }

    // Passes by bytes. Returns how many there were.
    std::int64_t skip(std::int64_t size) {
        std::int64_t rest = size;
        while (rest > 0 && fill(1)) {
            const std::int64_t count = std::min(rest, static_cast<std::int64_t>(held()));
            used_ += static_cast<std::size_t>(count);
            rest -= count;
        }
        fill(kLook);
        return size - rest;
    }

    // Returns whether a frame begins here, and another one like it behind it.
    bool is_frame_before_frame() {
        const std::size_t frame = mpeg_audio_bytes(ahead());
        if (frame == 0 || !fill(frame + kLook)) {
            return false;
        }
        const Bytes next = ahead().subspan(frame);
        return (next[1] & 0xFE) == (ahead()[1] & 0xFE) && mpeg_audio_bytes(next) > 0;
    }

    // Finds out what begins here, and how far that goes, and leaves out what is no sound.
    void look() {
        fill(kLook);
        if (position_ == 0) {
            front_ = 0;
            kind_ = Kind::kUnknown;
            in_header_ = false;
        }
        if (position_ == front_ && (kind_ == Kind::kUnknown || in_header_)) {
            find_front();
        }
        if (position_ < front_) {
            open_ = front_ - position_;
        } else if (kind_ == Kind::kMpeg) {
            look_for_tags();
        } else if (kind_ == Kind::kFlac && !in_header_) {
            look_for_headers();
        } else {
            open_ = kAll;
        }
    }

    // Finds the end of the tag, or of the block of a header, that is the next one in front, and at last which kind of
    // file it is.
    void find_front() {
        constexpr std::int64_t kHead = 4;
        if (in_header_) {
            BoxReader block(ahead());
            in_header_ = (block.take(1) & 0x80) == 0;
            front_ += kHead + static_cast<std::int64_t>(block.take(3));
        } else if (is_flac_header(ahead())) {
            kind_ = Kind::kFlac;
            in_header_ = true;
            front_ += kHead;
        } else if (const std::int64_t tag = id3v2_bytes(ahead()); tag > 0) {
            front_ += tag;
        } else {
            kind_ = mpeg_audio_bytes(ahead()) > 0 ? Kind::kMpeg : Kind::kOther;
        }
    }

    void look_for_tags() {
        pass([this] { return in_frames_ ? inner_tag_bytes() : 0; });
        const std::size_t frame = in_frames_ || is_frame_before_frame() ? mpeg_audio_bytes(ahead()) : 0;
        in_frames_ = frame > 0;
        open_ = std::max<std::int64_t>(static_cast<std::int64_t>(frame), 1);
    }

    // Returns whether a tag or a header ends so many bytes ahead: there is sound, a tag, or the end of the file. What
    // says anything else is damage, and may be followed by sound.
    template <typename IsSound>
    bool ends_after(std::int64_t size, IsSound is_sound) {
        const std::optional<Bytes> behind = far(size);
        return behind && (behind->empty() || is_sound(*behind) || tag_bytes(*behind) > 0);
    }

    // Returns how long the tag is that begins here; 0 if there is none.
    std::int64_t inner_tag_bytes() {
        const std::int64_t tag = tag_bytes(ahead());
        return tag > 0 && ends_after(tag, [](Bytes bytes) { return mpeg_audio_bytes(bytes) > 0; }) ? tag : 0;
    }

    // Frames of FLAC do not say how long they are, so that headers are looked for in all of it.
    void look_for_headers() {
        constexpr std::size_t kWord = 4;
        pass([this] { return inner_header_bytes(); });
        const std::size_t safe = ended_ ? held() : std::max(held(), kWord) - kWord;
        open_ = std::max<std::int64_t>(static_cast<std::int64_t>(std::min(next_word(ahead()), safe)), 1);
    }

    // Returns how long the header of FLAC is that begins here, or the tag in front of one or at the end; 0 if there is
    // none.
    std::int64_t inner_header_bytes() {
        if (position_ == front_) {
            return 0;
        }
        if (is_flac_header(ahead())) {
            return flac_header_bytes();
        }
        const std::int64_t tag = id3v2_bytes(ahead());
        return tag > 0 && ends_after(tag, is_flac_header) ? tag : 0;
    }

    // The blocks of the header say how long they are, and which is the last.
    std::int64_t flac_header_bytes() {
        constexpr std::int64_t kHead = 4;
        constexpr int kMostBlocks = 128;
        std::int64_t size = kHead;
        bool last = false;
        for (int i = 0; !last && i < kMostBlocks; ++i) {
            const std::optional<Bytes> head = far(size);
            if (!head || head->size() < kHead) {
                return 0;
            }
            BoxReader block(*head);
            last = (block.take(1) & 0x80) != 0;
            size += kHead + static_cast<std::int64_t>(block.take(3));
        }
        const auto is_sound = [](Bytes bytes) { return flac_samples(bytes) > 0 || is_flac_header(bytes); };
        return last && ends_after(size, is_sound) ? size : 0;
    }

    // Leaves out what follows as long as `find` says how long it is. Tags are looked for where a frame has ended: a
    // part of one may look like it.
    template <typename Find>
    void pass(Find find) {
        if (const auto known = left_out_.find(position_); known != left_out_.end()) {
            skip(known->second - left_out_before(position_));
            return;
        }
        std::int64_t passed = 0;
        for (std::int64_t size = 0; (size = find()) > 0;) {
            passed += skip(size);
        }
        if (passed > 0) {
            left_out_[position_] = left_out_before(position_) + passed;
        }
    }

    std::unique_ptr<ByteSource> source_;
    std::int64_t size_;
    std::int64_t place_ = 0;           // Where the source is.
    std::vector<std::uint8_t> piece_;  // Read ahead.
    std::array<std::uint8_t, kLook> far_{};
    std::size_t used_ = 0;  // How much of it was handed over.
    std::int64_t position_ = 0;
    std::int64_t open_ = 0;   // How many bytes follow that need not be looked at.
    std::int64_t front_ = 0;  // Where what is behind the tags in front begins.
    Kind kind_ = Kind::kUnknown;
    bool in_header_ = false;                         // Whether that is within the header of FLAC.
    bool ended_ = false;                             // Whether the source has no more.
    bool in_frames_ = false;                         // Whether a whole frame came last.
    std::map<std::int64_t, std::int64_t> left_out_;  // How many bytes are left out up to and with a position.
};

}  // namespace

std::unique_ptr<ByteSource> frames_of_joined(std::unique_ptr<ByteSource> source) {
    return std::make_unique<FramesOfJoined>(std::move(source));
}

}  // namespace spdl
