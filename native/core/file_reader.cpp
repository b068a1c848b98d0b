#include "core/file_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/file_descriptor.h"
#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Enough for most photos. Pipes and other files of unknown length start with it, too.
constexpr std::size_t kFirstBytes = 1 << 18;

}  // namespace

Bytes FileReader::read(std::string_view path) {
    const FileDescriptor file(path);
    const std::size_t hint = file.size().value_or(0);
    if (hint > kMaxEncodedBytes) {
        throw MediaError("cannot read the file: its " + std::to_string(hint) + " bytes are more than the " +
                         std::to_string(kMaxEncodedBytes) + " that an image may have");
    }
    if (memory_.size() > kKeptBytes && hint < kKeptBytes) {
        memory_ = AlignedBuffer();
    }
    // One byte more than expected: the read that finds the end then needs no second buffer.
    memory_.reserve(std::max(hint + 1, kFirstBytes));
    std::size_t size = 0;
    while (const std::size_t got = file.read(memory_.data() + size, memory_.size() - size)) {
        size += got;
        if (size > kMaxEncodedBytes) {
            throw MediaError("cannot read the file: it goes on after " + std::to_string(kMaxEncodedBytes) + " bytes");
        }
        if (size == memory_.size()) {
            AlignedBuffer larger(2 * size);
            std::memcpy(larger.data(), memory_.data(), size);
            memory_ = std::move(larger);
        }
    }
    return {memory_.data(), size};
}

}  // namespace spdl
