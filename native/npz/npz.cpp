#include "npz/npz.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/parallel.h"

namespace spdl {
namespace {

void check_crc(const ZipMember& member, Bytes bytes) {
    if (crc32(bytes) != member.crc) {
        throw FormatError("its " + std::to_string(bytes.size()) +
                          " bytes are damaged: their checksum is not the one in the "
                          "zip directory");
    }
}

}  // namespace

void check_budget(const ZipDirectory& directory, std::size_t most) {
    std::size_t sum = 0;
    for (const ZipMember& member : directory.members()) {
        if (member.method != static_cast<std::uint16_t>(ZipMethod::kStored) &&
            __builtin_add_overflow(sum, member.size, &sum)) {
            sum = SIZE_MAX;
        }
    }
    if (sum > most) {
        throw FormatError("the compressed members of the npz archive inflate to " + std::to_string(sum) +
                          " bytes, more than the `max_uncompressed_bytes` of " + std::to_string(most) +
                          ": raise that if you trust the archive");
    }
}

std::string describe(const ZipMember& member) {
    return "member " + quoted(member.name) + " at byte " + std::to_string(member.begin);
}

bool is_stored(const ZipMember& member) {
    if (member.encrypted) {
        throw FormatError("it is encrypted, which cannot be read");
    }
    switch (static_cast<ZipMethod>(member.method)) {
        case ZipMethod::kStored:
            return true;
        case ZipMethod::kDeflated:
        case ZipMethod::kZstd:
            return false;
    }
    throw FormatError("it is compressed by method " + std::to_string(member.method) +
                      "; stored members and those compressed by deflate (8) or zstd (93) can be read");
}

Bytes stored_bytes(const ZipDirectory& directory, const ZipMember& member, bool verify) {
    if (member.size != member.compressed_size) {
        throw FormatError("it is stored, but its " + std::to_string(member.compressed_size) + " bytes are said to be " +
                          std::to_string(member.size));
    }
    const Bytes bytes = directory.content(member);
    if (verify) {
        check_crc(member, bytes);
    }
    return bytes;
}

void check_claim(const ZipMember& member) {
    const bool deflated = member.method == static_cast<std::uint16_t>(ZipMethod::kDeflated);
    if (deflated && !deflate_can_make(member.size, member.compressed_size)) {
        throw FormatError("its " + std::to_string(member.compressed_size) + " bytes cannot inflate to the " +
                          std::to_string(member.size) + " that it is said to have");
    }
}

void inflate_member(const ZipDirectory& directory, const ZipMember& member, std::span<std::uint8_t> into) {
    const Bytes compressed = directory.content(member);
    if (member.method == static_cast<std::uint16_t>(ZipMethod::kDeflated)) {
        inflate_deflate(compressed, into);
    } else {
        inflate_zstd(compressed, into);
    }
    check_crc(member, into);
}

namespace {

// Room in front of the first row for the header that is inflated along with it. A header of an unusual length costs a
// copy.
constexpr std::size_t kLead = 4096;

// Tasks for each thread. With more of them, threads share the work better, but more rows are the first of a task.
constexpr std::size_t kTasksPerThread = 4;

// Runs `step`, and names the archive and the member in its errors.
template <typename Step>
auto in_member(std::size_t index, const ZipMember& member, const Step& step) {
    try {
        return step();
    } catch (const FormatError& error) {
        throw FormatError("srcs[" + std::to_string(index) + "], " + describe(member) + ": " + error.what());
    }
}

}  // namespace

NpzBatch::NpzBatch(const std::vector<Bytes>& archives, std::size_t max_uncompressed_bytes, bool verify)
    : verify_(verify) {
    directories_.reserve(archives.size());
    for (std::size_t index = 0; index < archives.size(); ++index) {
        open(index, archives[index], max_uncompressed_bytes);
    }
    std::unordered_map<std::string_view, std::size_t> places;
    for (const ZipMember& member : directories_.front().members()) {
        // If several members have one name, the last one counts.
        const auto [place, is_new] = places.emplace(member.name, columns_.size());
        Column& column = is_new ? columns_.emplace_back() : columns_[place->second];
        column.name = member.name;
        column.utf8 = member.utf8;
        column.members.assign(archives.size(), nullptr);
        column.members.front() = &member;
    }
    for (std::size_t index = 1; index < archives.size(); ++index) {
        for (const ZipMember& member : directories_[index].members()) {
            const auto place = places.find(member.name);
            if (place == places.end()) {
                throw FormatError("srcs[" + std::to_string(index) + "] has a member " + quoted(member.name) +
                                  ", which srcs[0] lacks: a batch needs the same members in all");
            }
            columns_[place->second].members[index] = &member;
        }
        match(index);
    }
    for (Column& column : columns_) {
        in_member(0, *column.members.front(), [&] { read_first(column); });
    }
}

void NpzBatch::open(std::size_t index, Bytes archive, std::size_t max_uncompressed_bytes) {
    try {
        check_budget(directories_.emplace_back(archive), max_uncompressed_bytes);
    } catch (const FormatError& error) {
        throw FormatError("srcs[" + std::to_string(index) + "]: " + error.what());
    }
}

void NpzBatch::match(std::size_t index) {
    for (const Column& column : columns_) {
        if (column.members[index] == nullptr) {
            throw FormatError("srcs[" + std::to_string(index) + "] lacks the member " + quoted(column.name) +
                              " that srcs[0] has: a batch needs the same members in all");
        }
    }
}

void NpzBatch::read_first(Column& column) {
    const ZipMember& member = *column.members.front();
    Bytes bytes;
    if (is_stored(member)) {
        bytes = stored_bytes(directories_.front(), member, verify_);
    } else {
        check_claim(member);
        column.first = AlignedBuffer(member.size);
        inflate_member(directories_.front(), member, {column.first.data(), member.size});
        bytes = {column.first.data(), member.size};
    }
    column.header = parse_npy_header(bytes);
    column.row_bytes = bytes.size() - column.header.offset;
}

void NpzBatch::load(int threads) {
    std::vector<Task> tasks;
    for (Column& column : columns_) {
        const std::size_t rows = column.members.size();
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(column.row_bytes, rows, &bytes) || bytes > SIZE_MAX - kLead) {
            throw std::bad_alloc();
        }
        column.lead = kLead;
        column.memory = AlignedBuffer(bytes + kLead);
        const std::size_t parts = threads == 1 ? 1 : static_cast<std::size_t>(threads) * kTasksPerThread;
        const std::size_t step = (rows + parts - 1) / parts;
        for (std::size_t begin = 0; begin < rows; begin += step) {
            tasks.push_back({&column, begin, std::min(rows, begin + step)});
        }
    }
    run_parallel(threads, 0, tasks.size(), [&](std::size_t index) { fill(tasks[index]); });
}

void NpzBatch::fill(const Task& task) {
    const Column& column = *task.column;
    // Rows are filled from the last to the first: a member is inflated with its header, which then lies in the row
    // before, and that row is filled later. The memory before the task's first row belongs to another task.
    for (std::size_t index = task.end; index-- > task.begin;) {
        const ZipMember& member = *column.members[index];
        in_member(index, member, [&] {
            const std::size_t mine = (index - task.begin) * column.row_bytes + (task.begin == 0 ? column.lead : 0);
            const bool fits = member.size >= column.row_bytes && member.size - column.row_bytes <= mine;
            fill_row(column, index, fits);
        });
    }
}

void NpzBatch::fill_row(const Column& column, std::size_t index, bool room_before) {
    const ZipMember& member = *column.members[index];
    std::uint8_t* const row = column.row(index);
    const auto copy = [&](Bytes bytes) {
        check_header(column, bytes);
        if (column.row_bytes > 0) {
            std::memcpy(row, bytes.data() + (bytes.size() - column.row_bytes), column.row_bytes);
        }
    };
    if (index == 0 && column.first.data() != nullptr) {
        copy({column.first.data(), member.size});
    } else if (is_stored(member)) {
        copy(stored_bytes(directories_[index], member, verify_));
    } else if (room_before) {
        std::uint8_t* const start = row - (member.size - column.row_bytes);
        inflate_member(directories_[index], member, {start, member.size});
        check_header(column, {start, member.size});
    } else {
        check_claim(member);
        const AlignedBuffer whole(member.size);
        inflate_member(directories_[index], member, {whole.data(), member.size});
        copy({whole.data(), member.size});
    }
}

void NpzBatch::check_header(const Column& column, Bytes bytes) {
    const NpyHeader header = parse_npy_header(bytes);
    const NpyHeader& first = column.header;
    if (header.descr != first.descr || header.fortran_order != first.fortran_order ||
        !std::ranges::equal(header.shape(), first.shape())) {
        const auto shown = [](const NpyHeader& it) {
            std::string text = quoted(it.descr) + " (";
            for (const std::size_t side : it.shape()) {
                text += std::to_string(side) + ",";
            }
            return text + (it.fortran_order ? ") in Fortran order" : ")");
        };
        throw FormatError("it is an array of " + shown(header) + ", but that of srcs[0] is of " + shown(first) +
                          ": the arrays of a batch need one type, shape and order");
    }
    if (bytes.size() - header.offset != column.row_bytes) {
        throw FormatError("its npy header is followed by " + std::to_string(bytes.size() - header.offset) +
                          " bytes of elements, in srcs[0] by " + std::to_string(column.row_bytes));
    }
}

}  // namespace spdl
