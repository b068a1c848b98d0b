// Fuzzes the code that reads arrays and archives: npy, npz, tar, wav. The first bytes of an input, as in the corpus,
// tell which of them it is for; any other input goes to all.

#include "arrays/arrays.h"

#include <cstring>
#include <new>
#include <string_view>

#include "archive/archive.h"
#include "core/errors.h"
#include "npz/npz.h"
#include "target.h"

namespace spdl::fuzz {
namespace {

// A small limit, for speed: no input has more than some KiB.
constexpr std::size_t kBudget = std::size_t{1} << 20;

volatile std::uint8_t sink;

// Reads every byte, for AddressSanitizer to see.
void touch(Bytes bytes) {
    std::uint8_t sum = 0;
    for (const std::uint8_t byte : bytes) {
        sum = static_cast<std::uint8_t>(sum + byte);
    }
    sink = sum;
}

// Runs a step that may end with a FormatError. Returns whether it came so far as to set the flag.
template <typename Step>
bool attempt(const Step& step) {
    bool passed = false;
    try {
        step(passed);
    } catch (const FormatError&) {
        // The answer to bad input.
    } catch (const std::bad_alloc&) {
        // This is the answer to a batch that is too large.
    }
    return passed;
}

bool read_npy(Bytes input) {
    return attempt([&](bool& passed) {
        const NpyHeader header = parse_npy_header(input);
        passed = true;
        touch({reinterpret_cast<const std::uint8_t*>(header.descr.data()), header.descr.size()});
        touch(input.subspan(header.offset, std::min(input.size() - header.offset, header.elements)));
    });
}

void read_member(const ZipDirectory& directory, const ZipMember& member) {
    attempt([&](bool&) {
        if (is_stored(member)) {
            const Bytes bytes = stored_bytes(directory, member, true);
            touch(bytes);
            read_npy(bytes);
            return;
        }
        check_claim(member);
        const AlignedBuffer whole(member.size);
        inflate_member(directory, member, {whole.data(), member.size});
        read_npy({whole.data(), member.size});
    });
}

bool read_npz(Bytes input) {
    const bool passed = attempt([&](bool& opened) {
        const ZipDirectory directory(input);
        opened = true;
        check_budget(directory, kBudget);
        for (const ZipMember& member : directory.members()) {
            read_member(directory, member);
        }
    });
    if (passed) {
        attempt([&](bool&) {
            NpzBatch batch({input, input, input}, kBudget, false);
            std::size_t bytes = 0;
            for (const auto& column : batch.columns()) {
                bytes += column.row_bytes;
            }
            if (bytes <= kBudget) {
                batch.load(1);
                for (const auto& column : batch.columns()) {
                    touch({column.row(0), 3 * column.row_bytes});
                }
            }
        });
    }
    return passed;
}

bool read_tar(Bytes input) {
    return attempt([&](bool& passed) {
        TarWalk walk(input);
        Bytes content;
        while (walk.next(content)) {
            passed = true;
            touch(content);
            touch({reinterpret_cast<const std::uint8_t*>(walk.name().data()), walk.name().size()});
        }
        passed = true;
    });
}

bool read_wav(Bytes input) {
    return attempt([&](bool& passed) {
        parse_wav_header(input);
        passed = true;
        const WavSamples samples = find_wav_samples(input);
        touch(input.subspan(samples.offset, samples.frames * samples.channels * samples.bytes));
    });
}

bool read_zstd(Bytes input) {
    return attempt([&](bool& passed) {
        ZstdStream stream;
        AlignedBuffer piece(1000);
        for (std::size_t pieces = 0; pieces < 1000; ++pieces) {
            const ZstdStream::Step step = stream.inflate(input, {piece.data(), piece.size()});
            passed = passed || step.made > 0;
            touch({piece.data(), step.made});
            input = input.subspan(step.taken);
            if (step.made == 0 && input.empty()) {
                break;
            }
        }
    });
}

bool begins(Bytes input, std::string_view magic) {
    return input.size() >= magic.size() && std::memcmp(input.data(), magic.data(), magic.size()) == 0;
}

bool is_tar(Bytes input) {
    return input.size() >= TarParser::kBlock && std::memcmp(input.data() + 257, "ustar", 5) == 0;
}

}  // namespace

bool run(std::span<const std::uint8_t> input) {
    // A copy of exactly this size, so that a byte too far does not belong to something else.
    const std::vector<std::uint8_t> exact(input.begin(), input.end());
    const Bytes bytes(exact);
    if (begins(bytes, "\x93NUMPY")) {
        return read_npy(bytes);
    }
    if (begins(bytes, "PK")) {
        return read_npz(bytes);
    }
    if (begins(bytes, "RIFF") || begins(bytes, "RF64")) {
        return read_wav(bytes);
    }
    if (begins(bytes, "\x28\xb5\x2f\xfd")) {
        return read_zstd(bytes);
    }
    if (is_tar(bytes)) {
        return read_tar(bytes);
    }
    const bool npz = read_npz(bytes);
    const bool tar = read_tar(bytes);
    return read_npy(bytes) || read_wav(bytes) || npz || tar;
}

// Repairs the sums of tar headers, and the length of npy headers.
void mend(Input& input) {
    for (std::size_t block = 0; block + TarParser::kBlock <= input.size(); block += TarParser::kBlock) {
        std::uint8_t* const header = input.data() + block;
        if (std::memcmp(header + 257, "ustar", 5) != 0) {
            continue;
        }
        std::memset(header + 148, ' ', 8);
        unsigned sum = 0;
        for (std::size_t index = 0; index < TarParser::kBlock; ++index) {
            sum += header[index];
        }
        for (int digit = 5; digit >= 0; --digit, sum >>= 3) {
            header[148 + digit] = static_cast<std::uint8_t>('0' + (sum & 7));
        }
        header[154] = 0;
    }
}

}  // namespace spdl::fuzz
