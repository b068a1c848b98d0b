#include "av/h264_frame_numbers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "av/bit_reader.h"
#include "av/nal_units.h"

namespace spdl {
namespace {

// ITU-T H.264, table 7-1.
constexpr int kSlice = 1;
constexpr int kPartition = 2;
constexpr int kInstantRefresh = 5;
constexpr int kSequence = 7;
constexpr int kPicture = 8;

// Returns the beginning of a unit without its first byte and the bytes that only keep start codes apart.
std::vector<std::uint8_t> payload(Bytes unit) {
    constexpr std::size_t kMost = 1024;
    std::vector<std::uint8_t> bytes;
    int zeros = 0;
    for (const std::uint8_t byte : unit.subspan(1, std::min(unit.size() - 1, kMost))) {
        if (zeros >= 2 && byte == 3) {
            zeros = 0;
            continue;
        }
        zeros = byte == 0 ? zeros + 1 : 0;
        bytes.push_back(byte);
    }
    return bytes;
}

int type_of(Bytes unit) {
    return unit[0] & 0x1f;
}

void skip_scaling_list(BitReader& bits, int size) {
    int last = 8;
    int next = 8;
    for (int i = 0; i < size && next != 0; ++i) {
        const unsigned code = bits.exp_golomb().value_or(0);
        const int delta = static_cast<int>((code + 1) / 2) * (code % 2 == 1 ? 1 : -1);
        next = (last + delta + 256) % 256;
        last = next == 0 ? last : next;
    }
}

// Reads what only the higher profiles have, and returns whether the planes of a picture are coded one by one.
bool read_high_profile(BitReader& bits) {
    const unsigned chroma = bits.exp_golomb().value_or(0);
    const bool separate = chroma == 3 && bits.take(1) != 0;
    bits.exp_golomb();  // The depth of luma,
    bits.exp_golomb();  // and that of chroma.
    bits.skip(1);
    if (bits.take(1) != 0) {
        constexpr int kSmall = 6;
        const int lists = chroma == 3 ? 12 : 8;
        for (int i = 0; i < lists; ++i) {
            if (bits.take(1) != 0) {
                skip_scaling_list(bits, i < kSmall ? 16 : 64);
            }
        }
    }
    return separate;
}

bool is_high(unsigned profile) {
    constexpr std::array kHigh{100U, 110U, 122U, 244U, 44U, 83U, 86U, 118U, 128U, 138U, 139U, 134U, 135U};
    return std::ranges::find(kHigh, profile) != kHigh.end();
}

// Reads how pictures tell their order, and returns whether they need not, as it is that of decoding.
bool read_order(BitReader& bits) {
    constexpr unsigned kAsDecoded = 2;
    const unsigned kind = bits.exp_golomb().value_or(0);
    if (kind == 0) {
        bits.exp_golomb();
    } else if (kind == 1) {
        bits.skip(1);
        bits.exp_golomb();
        bits.exp_golomb();
        const unsigned count = std::min(bits.exp_golomb().value_or(0), 255U);
        for (unsigned i = 0; i < count; ++i) {
            bits.exp_golomb();
        }
    }
    return kind == kAsDecoded;
}

}  // namespace

H264FrameNumbers::H264FrameNumbers(const AVCodecParameters& video) : video_(video) {
    if (video.extradata != nullptr && video.extradata_size > 0) {
        read_parameters({video.extradata, static_cast<std::size_t>(video.extradata_size)});
    }
}

// ISO/IEC 14496-15, 5.3.3.1; or units with start codes.
void H264FrameNumbers::read_parameters(Bytes extra) {
    if (extra[0] != 1) {
        visit_units(extra, video_, [&](Bytes unit) {
            read_unit(unit);
            return false;
        });
        return;
    }
    std::size_t at = 5;
    for (const unsigned mask : {0x1fU, 0xffU}) {
        if (at >= extra.size()) {
            return;
        }
        for (unsigned left = extra[at++] & mask; left > 0 && at + 2 <= extra.size(); --left) {
            const std::size_t size = static_cast<std::size_t>(extra[at]) << 8U | extra[at + 1];
            at += 2;
            if (size > extra.size() - at) {
                return;
            }
            read_unit(extra.subspan(at, size));
            at += size;
        }
    }
}

void H264FrameNumbers::read_unit(Bytes unit) {
    if (unit.size() < 2 || (type_of(unit) != kSequence && type_of(unit) != kPicture)) {
        return;
    }
    const std::vector<std::uint8_t> bytes = payload(unit);
    BitReader bits(bytes);
    if (type_of(unit) == kPicture) {
        const std::optional<unsigned> number = bits.exp_golomb();
        const std::optional<unsigned> sequence = bits.exp_golomb();
        if (number && sequence) {
            pictures_[*number] = *sequence;
        }
        return;
    }
    const unsigned profile = bits.take(8);
    bits.skip(16);  // Constraints, and the level.
    const std::optional<unsigned> number = bits.exp_golomb();
    Sequence sequence;
    sequence.separate_planes = is_high(profile) && read_high_profile(bits);
    constexpr unsigned kMostBits = 16;
    const unsigned number_bits = bits.exp_golomb().value_or(kMostBits) + 4;
    sequence.in_order = read_order(bits);
    bits.exp_golomb();  // How many pictures others may build on.
    sequence.may_have_gaps = number_bits > kMostBits || bits.take(1) != 0;
    sequence.number_bits = static_cast<int>(number_bits);
    if (number) {
        sequences_[*number] = sequence;
    }
}

bool H264FrameNumbers::shows_in_order() const {
    return !sequences_.empty() && std::ranges::all_of(sequences_, [](const auto& it) { return it.second.in_order; });
}

bool H264FrameNumbers::read_slice(Bytes unit) {
    const std::vector<std::uint8_t> bytes = payload(unit.first(std::min<std::size_t>(unit.size(), 32)));
    BitReader bits(bytes);
    bits.exp_golomb();  // The first macroblock,
    bits.exp_golomb();  // and the kind of the slice.
    const auto picture = pictures_.find(bits.exp_golomb().value_or(~0U));
    const auto sequence = picture == pictures_.end() ? sequences_.end() : sequences_.find(picture->second);
    if (sequence == sequences_.end() || sequence->second.may_have_gaps) {
        last_.reset();
        return false;
    }
    bits.skip(sequence->second.separate_planes ? 2 : 0);
    const unsigned number = bits.take(sequence->second.number_bits);
    const unsigned next = last_ ? (*last_ + 1) & ((1U << static_cast<unsigned>(sequence->second.number_bits)) - 1) : 0;
    // A picture may have the numbers begin anew; that stands where it is hard to read.
    const bool missing = type_of(unit) != kInstantRefresh && last_ && number > 1 && number != *last_ && number != next;
    const bool is_reference = (unit[0] >> 5U & 3U) != 0;
    if (is_reference || missing) {
        last_ = number;
    }
    return missing;
}

bool H264FrameNumbers::misses_one(const AVPacket& packet) {
    std::size_t size = 0;
    if (const std::uint8_t* const extra = av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, &size);
        extra != nullptr && size > 0) {
        read_parameters({extra, size});
    }
    bool missing = false;
    const Bytes bytes(packet.data, packet.data == nullptr ? 0 : static_cast<std::size_t>(packet.size));
    visit_units(bytes, video_, [&](Bytes unit) {
        const int type = unit.size() < 2 ? 0 : type_of(unit);
        if (type == kPartition) {
            last_.reset();
            return true;
        }
        if (type != kSlice && type != kInstantRefresh) {
            if (type != 0) {
                read_unit(unit);
            }
            return false;
        }
        missing = read_slice(unit);
        return true;
    });
    return missing;
}

}  // namespace spdl
