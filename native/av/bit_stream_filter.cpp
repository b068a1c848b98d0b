#include "av/bit_stream_filter.h"

#include <cerrno>
#include <utility>

#include "av/packet_list.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {

BitStreamFilter::BitStreamFilter(std::shared_ptr<const Stream> stream, const std::string& description)
    : what_("cannot apply the bitstream filter \"" + description + "\"") {
    const FfmpegLog log;
    AVBSFContext* created = nullptr;
    log.check(av_bsf_list_parse_str(description.c_str(), &created), what_.c_str());
    context_.reset(created);
    log.check(avcodec_parameters_copy(context_->par_in, stream->parameters.get()), what_.c_str());
    context_->time_base_in = stream->time_base;
    log.check(av_bsf_init(context_.get()), what_.c_str());
    output_ = std::make_shared<const Stream>(
        Stream{stream->medium, stream->index, copy_parameters(*context_->par_out), context_->time_base_out,
               stream->frame_rate, stream->start, stream->duration, stream->num_frames, stream->times,
               stream->tells_keys, stream->makes_up_times, stream->counts_samples, stream->rotation});
}

void BitStreamFilter::add(PacketPtr packet, std::vector<PacketPtr>& finished) {
    if (is_empty(*packet)) {
        finished.push_back(std::move(packet));  // Filters would take it for the end.
        return;
    }
    const FfmpegLog log;
    log.check(av_bsf_send_packet(context_.get(), packet.get()), what_.c_str());
    receive(finished);
}

void BitStreamFilter::flush(std::vector<PacketPtr>& finished) {
    const FfmpegLog log;
    log.check(av_bsf_send_packet(context_.get(), nullptr), what_.c_str());
    receive(finished);
    av_bsf_flush(context_.get());
}

void BitStreamFilter::receive(std::vector<PacketPtr>& finished) {
    const FfmpegLog log;
    for (;;) {
        PacketPtr packet = make_packet();
        const int code = av_bsf_receive_packet(context_.get(), packet.get());
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            return;
        }
        log.check(code, what_.c_str());
        finished.push_back(std::move(packet));
    }
}

}  // namespace spdl
