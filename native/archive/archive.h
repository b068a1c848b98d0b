#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Returns the size of the largest result for an input of `size` bytes.
std::size_t deflate_bound(std::size_t size);
std::size_t zstd_bound(std::size_t size);

// Compress at the libraries' default levels, and return the size of the result. `into` has the size above.
std::size_t deflate(Bytes data, std::span<std::uint8_t> into);
std::size_t zstd(Bytes data, std::span<std::uint8_t> into);

// Inflates one stream of bytes into exactly as many bytes as expected. Each thread keeps its own state. These throw
// FormatError if the stream is damaged or has another length.
void inflate_deflate(Bytes compressed, std::span<std::uint8_t> into);
void inflate_zstd(Bytes compressed, std::span<std::uint8_t> into);

// Returns whether deflate can make so much out of so little at all. If not, the header lies, and no memory may be taken
// for it.
bool deflate_can_make(std::size_t size, std::size_t compressed_size);

// Returns the checksum of zip archives for bytes that follow others with the checksum `before`.
std::uint32_t crc32(Bytes data, std::uint32_t before = 0);

}  // namespace spdl

struct ZSTD_DCtx_s;

namespace spdl {

// Inflates zstd frames that come in pieces. Throws FormatError if they are damaged.
class ZstdStream {
  public:
    ZstdStream();

    // How much one step took and made. If it took all and made nothing, it needs more input.
    struct Step {
        std::size_t taken;
        std::size_t made;
    };

    Step inflate(Bytes compressed, std::span<std::uint8_t> into);

    // Returns whether the input may end here: between two frames.
    [[nodiscard]] bool between_frames() const { return between_frames_; }

  private:
    struct Free {
        void operator()(ZSTD_DCtx_s* held) const;
    };
    std::unique_ptr<ZSTD_DCtx_s, Free> context_;
    bool between_frames_ = true;
};

// Reads the headers of a tar archive one by one, from memory or from a stream: the caller brings them. Knows ustar, GNU
// and pax archives. Throws FormatError, with the offset of the header.
class TarParser {
  public:
    static constexpr std::size_t kBlock = 512;

    enum class Kind : std::uint8_t {
        kMember,  // A regular file: name() and content follow.
        kMeta,    // Content that the parser needs: take_meta() is to get it.
        kSkip,    // Content that nobody needs.
        kEnd,     // The archive is complete.
    };

    // The part that follows a header: `size` bytes, and `padding` up to the next header.
    struct Step {
        Kind kind;
        std::size_t size;
        std::size_t padding;
    };

    // Continues at a place of the archive. Elsewhere than behind the last step, what headers have said of one member is
    // forgotten.
    void begin_at(std::size_t place);

    // Takes the block at the place of the next header.
    Step take_header(const std::uint8_t* block);

    // Takes the content that a step of kind kMeta announced.
    void take_meta(Bytes content);

    // Tells the parser that the input ends in a header, after only `rest` bytes of it. Throws unless that is the end of
    // a complete archive.
    void take_end(std::size_t rest) const;

    // Throws the error for an input that ends after `there` of the bytes of the last step.
    [[noreturn]] void fail_truncated(std::size_t there) const;

    // Throws the error for an archive after whose end there is more than zeros, at some byte.
    [[noreturn]] static void fail_joined(std::size_t place);

    // Returns the name of the member, as its bytes are in the archive: UTF-8 nearly always.
    [[nodiscard]] std::string_view name() const { return name_; }

    // Returns whether no header so far applies to all later members.
    [[nodiscard]] bool is_plain() const { return !archive_.path && !archive_.size && !archive_.sparse; }

    // Returns the name and the size in a block alone, which headers before it may replace. Nothing if it is not a
    // header.
    static std::optional<std::pair<std::string, std::size_t>> look_at(const std::uint8_t* block);

    // Returns where the content of the last step begins.
    [[nodiscard]] std::size_t content_offset() const { return header_ + kBlock; }

  private:
    // The attributes that pax headers give to the next member, or to all.
    struct Extension {
        std::optional<std::string> path;
        std::optional<std::size_t> size;
        bool sparse = false;
    };

    [[noreturn]] void fail(const std::string& what) const;
    std::size_t number(const std::uint8_t* field, std::size_t width, const char* what) const;
    void check_sum(const std::uint8_t* block) const;
    void set_name(const std::uint8_t* block);
    void read_pax(std::string_view text, Extension& extension) const;
    Step step(Kind kind, std::size_t size);

    // The places of the last header and of the next one.
    std::size_t header_ = 0;
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    char meta_ = '\0';
    bool zeros_ = false;
    std::string name_;
    Extension member_;
    Extension archive_;
    std::optional<std::string> long_name_;
};

// Goes through a tar archive in memory.
class TarWalk {
  public:
    explicit TarWalk(Bytes archive) : archive_(archive) {}

    // Finds the content of the next regular file; name() is its name then. Returns false at the end. Throws
    // FormatError.
    bool next(Bytes& content);

    [[nodiscard]] std::string_view name() const { return parser_.name(); }

  private:
    Bytes archive_;
    TarParser parser_;
    std::size_t place_ = 0;
};

enum class ZipMethod : std::uint16_t { kStored = 0, kDeflated = 8, kZstd = 93 };

// A member as the directory at the end of the archive describes it.
struct ZipMember {
    // Bytes of the archive, in UTF-8 if `utf8`, else in code page 437.
    std::string_view name;
    bool utf8 = false;
    bool encrypted = false;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::size_t compressed_size = 0;
    std::size_t size = 0;
    // The start of its local header, and the start of the next member or the directory.
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The members of a zip archive in memory, zip64 and data descriptors included.
class ZipDirectory {
  public:
    // Reads the directory at the end of `archive`, and nothing else. Throws FormatError.
    explicit ZipDirectory(Bytes archive);

    [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }

    // Returns the stored bytes of a member. Throws FormatError, without naming the member, if its local header
    // contradicts the directory, or if it reaches into what follows.
    [[nodiscard]] Bytes content(const ZipMember& member) const;

  private:
    void set_ends(std::size_t directory);

    Bytes archive_;
    std::vector<ZipMember> members_;
};

}  // namespace spdl
