#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip_directory.h"
#include "arrays/npy_header.h"
#include "core/aligned_buffer.h"
#include "npz/npz_member.h"

namespace spdl {

// Archives with the same members, each of which is to become a row of one array for every member. Knows nothing of
// Python, and throws FormatError that names the archive by its position and the member.
class NpzBatch {
  public:
    struct Column {
        // As in the first archive's directory.
        std::string_view name;
        bool utf8 = false;
        // That of the first archive, which all others must have. Its text lies in that archive or in `first`.
        NpyHeader header;
        std::size_t row_bytes = 0;
        // The first archive's member where it had to be inflated, to know what there is.
        AlignedBuffer first;
        // In each archive.
        std::vector<const ZipMember*> members;
        // All rows, behind `lead` bytes that are not theirs.
        AlignedBuffer memory;
        std::size_t lead = 0;

        [[nodiscard]] std::uint8_t* row(std::size_t index) const { return memory.data() + lead + index * row_bytes; }
    };

    // Reads the directories and the first archive's headers.
    NpzBatch(const std::vector<Bytes>& archives, std::size_t max_uncompressed_bytes, bool verify);

    // Takes memory for the rows and fills them, on `threads` threads of which the calling one is one.
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
