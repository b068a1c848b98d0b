#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/bytes.h"

namespace spdl {

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

}  // namespace spdl
