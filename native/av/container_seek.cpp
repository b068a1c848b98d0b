#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "av/container.h"
#include "av/key_frame.h"
#include "av/mp4_tracks.h"
#include "av/packet_list.h"
#include "av/promised_end.h"
#include "av/segment_index.h"
#include "core/media_error.h"
#include "ffmpeg/ffmpeg_log.h"

// Where a container goes to, and whether it can.
namespace spdl {
namespace {

// libavformat makes up the times of packets that have none. It cannot know them after a seek, and on the last page of
// an Ogg file they are wrong. As long as this object lives, such packets keep no time.
class NoTimesMadeUp {
  public:
    explicit NoTimesMadeUp(AVFormatContext& context) : context_(context), before_(context.flags) {
        if (std::string_view(context.iformat->name) == "ogg") {
            context.flags |= AVFMT_FLAG_NOFILLIN;
        }
    }
    NoTimesMadeUp(const NoTimesMadeUp&) = delete;
    NoTimesMadeUp& operator=(const NoTimesMadeUp&) = delete;
    ~NoTimesMadeUp() { context_.flags = before_; }

  private:
    AVFormatContext& context_;
    int before_;
};

// Returns whether libavformat is told to show all of a track, whatever its edit list says.
bool ignores_edits(const DemuxOptions& options) {
    return std::ranges::any_of(options.format_options, [](const auto& option) {
        return (option.first == "ignore_editlist" && option.second != "0") ||
               (option.first == "advanced_editlist" && option.second == "0");
    });
}

}  // namespace

bool Container::can_seek(int stream) {
    return !is_raw(*context().iformat) && tells_keys(stream) && !joined_ && !is_led_astray(stream);
}

bool Container::is_led_astray(int stream) {
    if (!has_index(context()) || reads_once()) {
        return false;
    }
    const auto [found, is_new] = astray_.try_emplace(stream);
    if (is_new) {
        found->second = has_wrong_segment_index(*context().pb, source_->size(), context().streams[stream]->id);
    }
    return found->second;
}

std::int64_t Container::shown_parts(int stream) {
    if (!has_index(context()) || reads_once() || ignores_edits(options_)) {
        return 0;
    }
    const auto [found, is_new] = parts_.try_emplace(stream);
    if (is_new) {
        found->second = count_shown_parts(*context().pb, source_->size(), context().streams[stream]->id);
    }
    return found->second;
}

void Container::check_one_clock(int stream) {
    const std::int64_t parts = shown_parts(stream);
    const bool edited = parts > 1;
    const bool fragmented = has_index(context()) && !reads_once() && has_fragments(*context().pb, source_->size());
    if (!edited && (!fragmented || is_single())) {
        return;
    }
    throw MediaError("cannot tell which sample is when in the " + this->stream(stream)->describe() + ": " +
                     (edited ? "its edit list shows " + std::to_string(parts) + " parts of it one after the other"
                             : std::string("several files of fragments were put one behind the other")) +
                     ", and the sound of these overlaps. Load all of it, without a window: load_audio gives what there "
                     "is" +
                     (edited ? ". Or read the sound as it is stored, without the edits: "
                               "demux_config(format_options={\"ignore_editlist\": \"1\"})"
                             : ". Or split the file where the second one begins"));
}

bool Container::leads_to_times(int stream) {
    const std::string_view format = context().iformat->name;
    if (!has_index(context()) && format.find("matroska") == std::string_view::npos) {
        return false;
    }
    return !shows_parts(stream) && is_single();
}

bool Container::is_single() {
    if (!single_) {
        single_ = reads_once() || !may_be_several(context(), source_->size());
    }
    return *single_;
}

bool Container::jump(int stream, std::int64_t to, int flags) {
    pending_.clear();
    ahead_.clear();
    doubtful_.clear();
    clocks_.clear();
    at_start_ = false;
    last_end_ = AV_NOPTS_VALUE;
    const FfmpegLog log;
    if (av_seek_frame(&context(), stream, to, flags) < 0) {
        input_->rethrow();
        return false;
    }
    return true;
}

// The demuxer of a file that is nothing but frames finds the next one wherever it begins to look.
bool Container::go_near(int stream, std::int64_t time, std::int64_t byte) {
    mend();
    return is_raw(*context().iformat) ? jump(stream, byte, AVSEEK_FLAG_BYTE) : jump(stream, time, AVSEEK_FLAG_BACKWARD);
}

bool Container::try_seek(int stream, std::int64_t time, std::int64_t needed) {
    if (!jump(stream, time, AVSEEK_FLAG_BACKWARD)) {
        return false;
    }
    const NoTimesMadeUp honest(context());
    const std::shared_ptr<const Stream> described = this->stream(stream);
    // Not every demuxer finds the right place, so look at the packets that come from there.
    while (PacketPtr packet = read_packet()) {
        const bool wanted = packet->stream_index == stream;
        const std::int64_t shown = time_of(*packet);
        const bool key = wanted && is_key(*packet, *described);
        pending_.push_back(std::move(packet));
        if (wanted) {
            return key && shown != AV_NOPTS_VALUE && shown <= needed;
        }
    }
    return false;
}

void Container::seek(int stream, std::int64_t time) {
    mend();
    if (!can_seek(stream)) {
        rewind();
        return;
    }
    const AVStream& described = *context().streams[stream];
    // Seconds to go further back if a demuxer does not find a key frame in time.
    for (const int seconds : {0, 1, 5, 20}) {
        const std::int64_t back = av_rescale_q(seconds, {1, 1}, described.time_base);
        const bool at_start = described.start_time != AV_NOPTS_VALUE && time - back <= described.start_time;
        if (at_start && !(seconds == 0 && has_index(*context_))) {
            break;
        }
        if (try_seek(stream, time - back, time)) {
            return;
        }
    }
    rewind();
}

// libav remembers an error of its input, and would end there again.
void Container::mend() {
    if (broken_) {
        rewind();
    }
}

void Container::rewind() {
    if (at_start_ && !broken_) {
        return;
    }
    if (reads_once()) {
        throw MediaError(
            "the file can be read once only, as it has no seek(): read it into memory first, or demux all streams at "
            "once with streaming_demux");
    }
    // Negative times, and demuxers that seek by guessing, make opening it again the one sure way.
    source_->seek(0);
    open();
}

std::shared_ptr<const Stream> Container::begin(int index, const TimeWindow& window) {
    mend();
    std::shared_ptr<const Stream> found = stream(index);
    select({index});
    if (!window.start || reads_once()) {
        rewind();
        return found;
    }
    const std::int64_t start =
        av_rescale_q_rnd(window.start->numerator, {1, window.start->denominator}, found->time_base,
                         static_cast<AVRounding>(AV_ROUND_DOWN | AV_ROUND_PASS_MINMAX));
    seek(index, start);
    return found;
}

}  // namespace spdl
