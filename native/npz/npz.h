#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "arrays/arrays.h"
#include "core/buffer.h"

namespace spdl {

// Throws FormatError if the compressed members of an archive claim to inflate to more than `most` bytes.
void check_budget(const ZipDirectory& directory, std::size_t most);

// Returns the name and place of a member, for messages.
std::string describe(const ZipMember& member);

// A member of an npz archive is an npy file in a zip archive. These functions throw FormatErrors that do not name the
// member; their callers add its name.

// Returns whether its bytes lie in the archive uncompressed. Throws for methods that cannot be read.
bool is_stored(const ZipMember& member);

// Returns its bytes in place. `verify` reads them all to compare their checksum.
Bytes stored_bytes(const ZipDirectory& directory, const ZipMember& member, bool verify);

// Checks that a compressed member can have the size that it claims, before memory is taken for it.
void check_claim(const ZipMember& member);

// Inflates a compressed member into as many bytes as it has, and compares their checksum.
void inflate_member(const ZipDirectory& directory, const ZipMember& member, std::span<std::uint8_t> into);

// Archives with the same members. Each member becomes an array with a row for each archive. The class knows nothing of
// Python. It throws FormatErrors that name the archive by its position, and the member.
class NpzBatch {
  public:
    struct Column {
        // The name in the first archive's directory.
        std::string_view name;
        bool utf8 = false;
        // The header in the first archive, which all others must have, too. Its text lies in that archive or in
        // `first`.
        NpyHeader header;
        std::size_t row_bytes = 0;
        // The first archive's member, if it had to be inflated to read its header.
        AlignedBuffer first;
        // The member in each archive.
        std::vector<const ZipMember*> members;
        // All rows, after `lead` other bytes.
        AlignedBuffer memory;
        std::size_t lead = 0;

        [[nodiscard]] std::uint8_t* row(std::size_t index) const { return memory.data() + lead + index * row_bytes; }
    };

    // Reads the directories and the first archive's headers.
    NpzBatch(const std::vector<Bytes>& archives, std::size_t max_uncompressed_bytes, bool verify);

    // Allocates memory for the rows and fills them on `threads` threads, including the calling one.
    void load(int threads);

    [[nodiscard]] std::vector<Column>& columns() { return columns_; }

  private:
    struct Task {
        Column* column;
        // Rows from `begin` to `end`, filled from the last to the first.
        std::size_t begin;
        std::size_t end;
    };

    void open(std::size_t index, Bytes archive, std::size_t max_uncompressed_bytes);
    void match(std::size_t index);
    void read_first(Column& column);
    void fill(const Task& task);
    void fill_row(const Column& column, std::size_t index, bool room_before);
    static void check_header(const Column& column, Bytes bytes);

    std::vector<ZipDirectory> directories_;
    std::vector<Column> columns_;
    bool verify_;
};

}  // namespace spdl
