#include <algorithm>
#include <cstring>
#include <utility>

#include "archive/archive.h"
#include "core/bytes.h"
#include "core/errors.h"

namespace spdl {
namespace {

// The positions and lengths of the fields in a header.
constexpr std::size_t kName = 0, kNameBytes = 100;
constexpr std::size_t kSize = 124, kSizeBytes = 12;
constexpr std::size_t kSum = 148, kSumBytes = 8;
constexpr std::size_t kType = 156;
constexpr std::size_t kMagic = 257;
constexpr std::size_t kPrefix = 345, kPrefixBytes = 155;

// Names and pax headers have a few hundred bytes. No more memory than this is taken, whatever a header says.
constexpr std::size_t kMaxMeta = std::size_t{1} << 20;

constexpr std::size_t kMaxSize = static_cast<std::size_t>(PTRDIFF_MAX) / 2;

std::string_view text(const std::uint8_t* field, std::size_t width) {
    const std::string_view whole(reinterpret_cast<const char*>(field), width);
    return whole.substr(0, whole.find('\0'));
}

bool all_zeros(const std::uint8_t* block) {
    return block[0] == 0 && std::memcmp(block, block + 1, TarParser::kBlock - 1) == 0;
}

// Returns the sum of a header, in which its own field counts as spaces. It adds eight bytes at once, as four pairs: the
// sum of 64 pairs fits into 16 bits.
std::size_t sum_bytes(const std::uint8_t* block) {
    constexpr std::uint64_t kEven = 0x00ff00ff00ff00ff;
    std::uint64_t pairs = 0;
    for (std::size_t index = 0; index < TarParser::kBlock; index += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, block + index, sizeof(word));
        pairs += (word & kEven) + (word >> 8 & kEven);
    }
    std::size_t sum = 0;
    for (int shift = 0; shift < 64; shift += 16) {
        sum += pairs >> shift & 0xffff;
    }
    for (std::size_t index = kSum; index < kSum + kSumBytes; ++index) {
        sum += std::size_t{' '} - block[index];
    }
    return sum;
}

// Some old programs added signed characters.
std::size_t count_high(const std::uint8_t* block) {
    const auto high = [](std::uint8_t letter) { return letter > 0x7f; };
    return static_cast<std::size_t>(std::count_if(block, block + TarParser::kBlock, high) -
                                    std::count_if(block + kSum, block + kSum + kSumBytes, high));
}

}  // namespace

void TarParser::fail(const std::string& what) const {
    throw FormatError("the tar archive " + what + ", in the header at byte " + std::to_string(header_));
}

std::size_t TarParser::number(const std::uint8_t* field, std::size_t width, const char* what) const {
    std::size_t value = 0;
    // GNU's way to write large numbers: in base 256, marked by the first bit.
    if ((field[0] & 0x80) != 0) {
        if (field[0] == 0xff) {
            fail(std::string("gives a negative ") + what);
        }
        value = field[0] & 0x7f;
        for (std::size_t index = 1; index < width; ++index) {
            if (value > kMaxSize >> 8) {
                fail(std::string("gives a ") + what + " that no memory could hold");
            }
            value = value << 8 | field[index];
        }
    } else {
        std::size_t index = 0;
        while (index < width && field[index] == ' ') {
            ++index;
        }
        for (; index < width && field[index] >= '0' && field[index] <= '7'; ++index) {
            value = value << 3 | static_cast<std::size_t>(field[index] - '0');
        }
        if (index < width && field[index] != ' ' && field[index] != '\0') {
            fail(std::string("gives a ") + what +
                 " that is not an octal number: " + quoted({reinterpret_cast<const char*>(field), width}));
        }
    }
    if (value > kMaxSize) {
        fail(std::string("gives a ") + what + " that no memory could hold");
    }
    return value;
}

void TarParser::check_sum(const std::uint8_t* block) const {
    const std::size_t sum = sum_bytes(block);
    const std::size_t said = number(block + kSum, kSumBytes, "checksum");
    if (said != sum && said != sum - 256 * count_high(block)) {
        fail(header_ == 0 ? "is not a tar, or is compressed by a method that cannot be read: its checksum is wrong"
                          : "is damaged: its checksum is wrong");
    }
}

TarParser::Step TarParser::step(Kind kind, std::size_t size) {
    size_ = size;
    const std::size_t padding = (kBlock - size % kBlock) % kBlock;
    if (__builtin_add_overflow(next_, kBlock + size + padding, &next_) || next_ > kMaxSize) {
        fail("gives a size that no archive could have");
    }
    return {kind, size, padding};
}

void TarParser::set_name(const std::uint8_t* block) {
    if (const auto& path = member_.path ? member_.path : archive_.path; path.has_value()) {
        name_ = *path;
    } else if (long_name_.has_value()) {
        name_ = std::move(*long_name_);
    } else {
        // GNU's old headers have times in place of the prefix.
        const bool has_prefix = std::memcmp(block + kMagic, "ustar\0", 6) == 0;
        name_ = has_prefix ? text(block + kPrefix, kPrefixBytes) : std::string_view();
        if (!name_.empty()) {
            name_ += '/';
        }
        name_ += text(block + kName, kNameBytes);
    }
}

std::optional<std::pair<std::string, std::size_t>> TarParser::look_at(const std::uint8_t* block) {
    try {
        TarParser parser;
        parser.check_sum(block);
        parser.set_name(block);
        return std::pair(std::move(parser.name_), parser.number(block + kSize, kSizeBytes, "size"));
    } catch (const FormatError&) {
        return std::nullopt;
    }
}

void TarParser::begin_at(std::size_t place) {
    if (place != next_) {
        next_ = place;
        zeros_ = false;
        member_ = {};
        long_name_.reset();
    }
}

TarParser::Step TarParser::take_header(const std::uint8_t* block) {
    header_ = next_;
    meta_ = '\0';
    if (all_zeros(block)) {
        if (!std::exchange(zeros_, true)) {
            return step(Kind::kSkip, 0);
        }
        return {Kind::kEnd, 0, 0};
    }
    if (zeros_) {
        fail("has a header after a block of zeros, which should end it");
    }
    check_sum(block);
    std::size_t size = number(block + kSize, kSizeBytes, "size");
    const char type = static_cast<char>(block[kType]);
    switch (type) {
        case 'L':
        case 'x':
        case 'X':
        case 'g':
            if (size > kMaxMeta) {
                fail("announces a name or attributes of " + std::to_string(size) + " bytes, more than the " +
                     std::to_string(kMaxMeta) + " that are accepted");
            }
            meta_ = type;
            return step(Kind::kMeta, size);
        case 'K':
            // This is the target of a link. The name and the attributes of its member may have been read before.
            return step(Kind::kSkip, size);
        default:
            break;
    }
    set_name(block);
    if (const auto& known = member_.size ? member_.size : archive_.size; known.has_value()) {
        size = *known;
    }
    const bool sparse = type == 'S' || member_.sparse || archive_.sparse;
    member_ = {};
    long_name_.reset();
    if (sparse) {
        fail("holds the sparse file " + quoted(name_) +
             ", which cannot be read: write it with `tar --hole-detection=raw` "
             "or without `--sparse`");
    }
    switch (type) {
        case '\0':
            // Before folders had a type, their names ended so.
            return name_.ends_with('/') ? step(Kind::kSkip, 0) : step(Kind::kMember, size);
        case '0':
        case '7':
            return step(Kind::kMember, size);
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
        case '6':
            // Links, devices, folders and pipes: their size is not the size of any content.
            return step(Kind::kSkip, 0);
        case 'M':
            fail("begins with the rest of the file " + quoted(name_) + " from another volume, which cannot be read");
        default:
            return step(Kind::kSkip, size);
    }
}

void TarParser::take_meta(Bytes content) {
    const std::string_view whole(reinterpret_cast<const char*>(content.data()), content.size());
    if (meta_ == 'L') {
        long_name_ = whole.substr(0, whole.find('\0'));
    } else if (meta_ == 'g') {
        read_pax(whole, archive_);
    } else {
        member_ = {};
        read_pax(whole, member_);
    }
}

void TarParser::read_pax(std::string_view records, Extension& extension) const {
    // Each record is "LENGTH KEY=VALUE\n", and the length counts the whole record.
    while (!records.empty() && records.front() != '\0') {
        std::size_t length = 0;
        std::size_t digits = 0;
        while (digits < records.size() && digits < 7 && records[digits] >= '0' && records[digits] <= '9') {
            length = 10 * length + static_cast<std::size_t>(records[digits++] - '0');
        }
        const bool framed = digits > 0 && length > digits + 1 && length <= records.size() && records[digits] == ' ' &&
                            records[length - 1] == '\n';
        const std::string_view record = framed ? records.substr(digits + 1, length - digits - 2) : std::string_view();
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) {
            fail("has a damaged attribute " + quoted(records.substr(0, 40)));
        }
        const std::string_view key = record.substr(0, equals);
        const std::string_view value = record.substr(equals + 1);
        if (key == "path") {
            extension.path = value;
        } else if (key == "size") {
            std::size_t size = 0;
            for (const char digit : value) {
                if (digit < '0' || digit > '9' || size > kMaxSize / 10) {
                    fail("gives a size that is not a whole number, or that no memory could hold: " + quoted(value));
                }
                size = 10 * size + static_cast<std::size_t>(digit - '0');
            }
            extension.size = size;
        } else if (key.starts_with("GNU.sparse.")) {
            extension.sparse = true;
            // The path of the newer formats is only for programs that do not know them.
            if (key == "GNU.sparse.name") {
                extension.path = value;
            }
        }
        records.remove_prefix(length);
    }
}

void TarParser::take_end(std::size_t rest) const {
    if (!zeros_ || rest > 0) {
        std::string how = ", in front of its first header";
        if (next_ > 0) {
            how = ", without the blocks of zeros that should end it";
            how += rest == 0 ? "; if no member is missing, append 1024 zero bytes" : "";
        }
        throw FormatError("the tar archive is truncated: it ends at byte " + std::to_string(next_ + rest) + how);
    }
}

void TarParser::fail_truncated(std::size_t there) const {
    const bool named = meta_ == '\0' && !name_.empty();
    throw FormatError("the tar archive is truncated: it ends after " + std::to_string(there) + " of the " +
                      std::to_string(size_) + " bytes" + (named ? " of " + quoted(name_) : std::string()) +
                      " that begin at byte " + std::to_string(content_offset()));
}

void TarParser::fail_joined(std::size_t place) {
    throw FormatError("the tar archive goes on at byte " + std::to_string(place) +
                      ", after its end: if archives were joined by `cat`, join them by `tar --concatenate` instead, or "
                      "list each of them; else cut off what follows");
}

bool TarWalk::next(Bytes& content) {
    for (;;) {
        const std::size_t left = archive_.size() - place_;
        if (left < TarParser::kBlock) {
            parser_.take_end(left);
            return false;
        }
        const TarParser::Step step = parser_.take_header(archive_.data() + place_);
        if (step.kind == TarParser::Kind::kEnd) {
            const auto more = std::find_if(archive_.begin() + static_cast<std::ptrdiff_t>(place_), archive_.end(),
                                           [](std::uint8_t byte) { return byte != 0; });
            if (more != archive_.end()) {
                TarParser::fail_joined(static_cast<std::size_t>(more - archive_.begin()));
            }
            return false;
        }
        place_ += TarParser::kBlock;
        if (step.size + step.padding > archive_.size() - place_) {
            parser_.fail_truncated(archive_.size() - place_);
        }
        content = archive_.subspan(place_, step.size);
        place_ += step.size + step.padding;
        if (step.kind == TarParser::Kind::kMeta) {
            parser_.take_meta(content);
        } else if (step.kind == TarParser::Kind::kMember) {
            return true;
        }
    }
}

}  // namespace spdl
