#include "av/nut_end.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <vector>

#include "av/file_peek.h"
#include "ffmpeg/input.h"
#include "ffmpeg/libav.h"

namespace spdl {
namespace {

// Says the size of another source, but has one byte more. A packet that is cut takes it.
class OneMore final : public ByteSource {
  public:
    explicit OneMore(ByteSource& source) : source_(source) {}

    [[nodiscard]] std::int64_t size() override { return source_.size(); }

    std::size_t read(std::uint8_t* into, std::size_t size) override {
        const std::size_t count = source_.read(into, size);
        if (count > 0 || given_ || size == 0) {
            return count;
        }
        given_ = true;
        *into = 0;
        return 1;
    }

    void seek(std::int64_t position) override {
        source_.seek(position);
        given_ = false;
    }

  private:
    ByteSource& source_;
    bool given_ = false;
};

// Goes behind the code of the last point before a packet from which frames can be read. There is one in front of each
// large packet, and at least each 64 KiB otherwise. If there is none, all packets are read.
void go_near(AVIOContext& input, std::int64_t size, std::int64_t packet) {
    constexpr std::array<std::uint8_t, 8> kPoint{'N', 'K', 0xE4, 0xAD, 0xEE, 0xCA, 0x45, 0x69};
    constexpr std::int64_t kMost = 1 << 17;
    const std::int64_t begin = std::max<std::int64_t>(packet - kMost, avio_tell(&input));
    std::vector<std::uint8_t> before(static_cast<std::size_t>(std::max<std::int64_t>(packet - begin, 0)));
    if (!Peek(input, size).read(begin, before)) {
        return;
    }
    const auto found = std::ranges::find_end(before, kPoint);
    if (!found.empty()) {
        avio_seek(&input, begin + (found.end() - before.begin()), SEEK_SET);
    }
}

bool reads_beyond(AVFormatContext& context, std::int64_t size, std::int64_t last) {
    const PacketPtr packet = make_packet();
    go_near(*context.pb, size, last);
    while (avio_tell(context.pb) < size) {
        av_packet_unref(packet.get());
        if (av_read_frame(&context, packet.get()) < 0) {
            return false;
        }
    }
    return avio_tell(context.pb) > size;
}

}  // namespace

bool ends_within_nut_packet(ByteSource& source, std::int64_t last) {
    constexpr int kBuffer = 1 << 16;
    OneMore longer(source);
    longer.seek(0);
    Input input(longer, kBuffer);
    AVFormatContext* given = avformat_alloc_context();
    if (given == nullptr) {
        throw std::bad_alloc();
    }
    given->pb = input.context();
    given->flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_NOPARSE;
    // On failure libav frees what it was given.
    const int opened = avformat_open_input(&given, nullptr, av_find_input_format("nut"), nullptr);
    const FormatContextPtr context(given);
    const bool beyond = opened >= 0 && reads_beyond(*context, source.size(), last);
    input.rethrow();
    source.seek(source.size());
    return beyond;
}

}  // namespace spdl
