#include "av/picture_order.h"

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>
#include <tuple>

#include "av/h264_frame_numbers.h"
#include "av/nal_units.h"
#include "av/picture_header.h"
#include "core/bytes.h"

namespace spdl {
namespace {

bool has_numbers(AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC;
}

bool may_reorder(const AVCodecParameters& video) {
    const AVCodecDescriptor* const described = avcodec_descriptor_get(video.codec_id);
    return described != nullptr && (described->props & AV_CODEC_PROP_REORDER) != 0 &&
           !(video.codec_id == AV_CODEC_ID_H264 && H264FrameNumbers(video).shows_in_order());
}

// Returns whether the numbers of pictures begin anew with a packet: ITU-T H.264, table 7-1, and H.265, table 7-1.
bool begins_sequence(const AVPacket& packet, const AVCodecParameters& video) {
    const bool hevc = video.codec_id == AV_CODEC_ID_HEVC;
    const int first = hevc ? 16 : 5;
    const int last = hevc ? 20 : 5;
    const int others = hevc ? 32 : 6;
    bool found = false;
    visit_units({packet.data, static_cast<std::size_t>(packet.size)}, video, [&](Bytes unit) {
        const int type = unit.empty() ? others : hevc ? unit[0] >> 1 & 0x3F : unit[0] & 0x1F;
        found = type >= first && type <= last;
        return type > 0 && type < others;
    });
    return found;
}

}  // namespace

PictureOrder::PictureOrder(const Stream& stream)
    : parameters_(copy_parameters(*stream.parameters)), numbered_(has_numbers(stream.parameters->codec_id)) {
    if (!spdl::may_reorder(*parameters_)) {
        return;
    }
    context_.reset(avcodec_alloc_context3(nullptr));
    if (!context_ || avcodec_parameters_to_context(context_.get(), stream.parameters.get()) < 0) {
        throw std::bad_alloc();
    }
    // What is wrong with the pictures, decoders tell.
    constexpr int kSilent = 100;
    context_->log_level_offset = kSilent;
    parser_.reset(av_parser_init(static_cast<int>(stream.parameters->codec_id)));
    if (parser_) {
        parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    }
}

bool PictureOrder::add(const AVPacket& packet) {
    if (!parser_ || packet.data == nullptr || packet.size == 0) {
        const auto position = static_cast<std::int64_t>(places_.size());
        places_.push_back({sequence_, !numbered_ ? 2 * position : places_.empty() ? 0 : places_.back().number});
        return true;
    }
    std::uint8_t* parsed = nullptr;
    int size = 0;
    av_parser_parse2(parser_.get(), context_.get(), &parsed, &size, packet.data, packet.size, packet.pts, packet.dts,
                     packet.pos);
    if (numbered_) {
        add_numbered(packet);
        return true;
    }
    return add_waiting(packet, parser_->pict_type == AV_PICTURE_TYPE_B);
}

void PictureOrder::add_numbered(const AVPacket& packet) {
    if (!places_.empty() && begins_sequence(packet, *parameters_)) {
        ++sequence_;
    }
    const Place place{sequence_, parser_->output_picture_number};
    reordered_ = reordered_ ||
                 (!places_.empty() && places_.back().sequence == sequence_ && place.number < places_.back().number);
    places_.push_back(place);
}

// A picture that waits is shown before the next one that waits.
bool PictureOrder::add_waiting(const AVPacket& packet, bool at_once) {
    // Such a packet only stands for a picture that was in the one before with another that waits.
    constexpr int kMostOfNothing = 19;
    const bool stands = packed_ && packet.size <= kMostOfNothing;
    const auto position = static_cast<std::int64_t>(places_.size());
    if (at_once || stands) {
        reordered_ = reordered_ || has_waiting_;
    } else {
        if (has_waiting_) {
            places_[waits_].number = 2 * position - 1;
        }
        waits_ = places_.size();
        has_waiting_ = true;
    }
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    packed_ = !stands && (at_once ? packed_ : holds_reordered_picture(parameters_->codec_id, bytes));
    places_.push_back({sequence_, at_once || stands ? 2 * position : std::numeric_limits<std::int64_t>::max()});
    return !stands;
}

std::vector<std::size_t> PictureOrder::shown() const {
    std::vector<std::size_t> positions(places_.size());
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    std::ranges::stable_sort(positions, {},
                             [&](std::size_t at) { return std::tuple(places_[at].sequence, places_[at].number); });
    return positions;
}

}  // namespace spdl
