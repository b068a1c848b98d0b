// How packets are read that may be behind the end of what there is: of sound, or of a file that was cut off.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "av/container.h"
#include "av/frame_sync.h"
#include "av/nut_end.h"
#include "core/bytes.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Returns whether a JPEG has the mark that ends it: ISO/IEC 10918-1, table B.1. Within the picture there is no such
// mark, but there may be a smaller picture in front of it.
bool has_end(Bytes jpeg) {
    constexpr std::array<std::uint8_t, 2> kScan{0xff, 0xda};
    constexpr std::array<std::uint8_t, 2> kEnd{0xff, 0xd9};
    const auto scan = std::ranges::find_end(jpeg, kScan).begin();
    return !std::ranges::search(scan, jpeg.end(), kEnd.begin(), kEnd.end()).empty();
}

}  // namespace

// Returns whether a picture is not whole, as far as it shows at once. That of NUT, whose demuxer does not say so, may
// be whole if there is nothing behind it. Of pictures without a container the mark is missing that others have.
bool Container::may_be_cut(const AVPacket& packet) {
    const AVFormatContext& file = context();
    const AVCodecParameters& video = *file.streams[packet.stream_index]->codecpar;
    if (video.codec_type != AVMEDIA_TYPE_VIDEO || (file.error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return false;
    }
    if (video.codec_id == AV_CODEC_ID_MJPEG && is_raw(*file.iformat)) {
        const bool ends = has_end({packet.data, static_cast<std::size_t>(packet.size)});
        marks_ends_ = marks_ends_ || ends;
        return marks_ends_ && !ends;
    }
    return (packet.flags & AV_PKT_FLAG_CORRUPT) != 0 || ends_nut(packet);
}

bool Container::ends_nut(const AVPacket& packet) {
    return format() == std::string_view("nut") && packet.pos >= 0 && source_->size() > 0 &&
           packet.pos + packet.size >= source_->size();
}

// Throws if the file was cut off within the last packet, which may be cut.
void Container::check_last(const AVPacket& packet) {
    if (!ends_nut(packet) || ends_within_nut_packet(*source_, packet.pos)) {
        throw DamageError(
            "cannot read the file: it ends in the middle of a packet. A window that ends before can be read. To take "
            "what there is, pass demux_config(format_options={\"err_detect\": \"ignore_err\"})");
    }
}

// What no sound begins with lies behind all of it, or else is damage, which the decoder tells of. A picture that is not
// whole is either damaged, or the last one of a file that was cut off.
PacketPtr Container::read_packet() {
    while (ahead_.empty()) {
        PacketPtr packet = read_any_packet();
        if (!packet) {
            ahead_ = std::exchange(doubtful_, {});
            if (ahead_.empty() || !may_begin_sound(*ahead_.back(), context())) {
                ahead_.clear();
                return nullptr;
            }
            check_last(*ahead_.back());
            break;
        }
        const bool sound = may_begin_sound(*packet, context());
        if (sound) {
            ahead_.swap(doubtful_);
        }
        (sound && !may_be_cut(*packet) ? ahead_ : doubtful_).push_back(std::move(packet));
    }
    PacketPtr packet = std::move(ahead_.front());
    ahead_.pop_front();
    return packet;
}

void Container::check_pages(const AVPacket& packet) {
    if (const auto loss = pages_->loss(packet.stream_index, packet.pos)) {
        refuse(*loss, packet.stream_index);
    }
}

void Container::check_last_pages() {
    for (const int stream : selected_) {
        if (const auto loss = pages_->loss(stream)) {
            refuse(*loss, stream);
        }
    }
}

// Throws, unless the options say to read on behind lost pages.
void Container::refuse(const OggPages::Loss& loss, int stream) {
    if ((context().error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return;
    }
    std::string where = " before byte " + std::to_string(loss.page);
    if (selected_.size() == 1 && last_end_ != AV_NOPTS_VALUE) {
        std::array<char, 32> seconds{};
        const double found = static_cast<double>(last_end_) * av_q2d(context().streams[stream]->time_base);
        std::snprintf(seconds.data(), seconds.size(), ", behind %.3f s", found);
        where += seconds.data();
    }
    throw DamageError("cannot read the file: pages of stream " + std::to_string(stream) + " are damaged or missing" +
                      where +
                      ". A window that ends before can be read. To read on behind them, pass "
                      "demux_config(format_options={\"err_detect\": \"ignore_err\"})");
}

}  // namespace spdl
