#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavcodec/vorbis_parser.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/avutil.h>
#include <libavutil/crc.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}
#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include "core/non_copyable.h"
#include "media/options.h"

namespace spdl {

// Owners of libav's objects, each freed by libav's own function.
template <typename T, void (*free)(T**)>
struct FreeByPointer {
    void operator()(T* object) const noexcept { free(&object); }
};

using PacketPtr = std::unique_ptr<AVPacket, FreeByPointer<AVPacket, av_packet_free>>;
using FramePtr = std::unique_ptr<AVFrame, FreeByPointer<AVFrame, av_frame_free>>;
using CodecParametersPtr =
    std::unique_ptr<AVCodecParameters, FreeByPointer<AVCodecParameters, avcodec_parameters_free>>;
using CodecContextPtr = std::unique_ptr<AVCodecContext, FreeByPointer<AVCodecContext, avcodec_free_context>>;
using FilterGraphPtr = std::unique_ptr<AVFilterGraph, FreeByPointer<AVFilterGraph, avfilter_graph_free>>;
using FilterInOutPtr = std::unique_ptr<AVFilterInOut, FreeByPointer<AVFilterInOut, avfilter_inout_free>>;
using FormatContextPtr = std::unique_ptr<AVFormatContext, FreeByPointer<AVFormatContext, avformat_close_input>>;
using BsfContextPtr = std::unique_ptr<AVBSFContext, FreeByPointer<AVBSFContext, av_bsf_free>>;

struct FreeSwsContext {
    void operator()(SwsContext* context) const noexcept { sws_freeContext(context); }
};
using SwsContextPtr = std::unique_ptr<SwsContext, FreeSwsContext>;

// Throw std::bad_alloc if libav could not allocate.
PacketPtr make_packet();
FramePtr make_frame();
CodecParametersPtr make_parameters();
FramePtr reference(const AVFrame& frame);
PacketPtr reference(const AVPacket& packet);

// Options for libav. The destructor frees the unused ones.
class LibavOptions : NonCopyable {
  public:
    LibavOptions() = default;
    explicit LibavOptions(const OptionList& options);
    ~LibavOptions() { av_dict_free(&entries_); }

    void set(const char* key, const char* value);
    AVDictionary** get() { return &entries_; }

    // Raises if libav left an option unused because the demuxer, or another part of the given `kind`, does not know it.
    void check_all_used(const char* kind, const char* name) const;

  private:
    AVDictionary* entries_ = nullptr;
};

// Gives the thread back the scheduling policy and the priority that it had. SVT-AV1 makes the thread that opens it a
// real-time one, if it may, and leaves it so: everything that the thread does from then on would go before all others.
class KeepScheduling : NonCopyable {
  public:
#ifdef __linux__
    // Asks the system: pthread_getschedparam remembers, and does not see what others have set since.
    KeepScheduling() : policy_(sched_getscheduler(0)) { sched_getparam(0, &parameters_); }
    ~KeepScheduling() {
        sched_param now{};
        sched_getparam(0, &now);
        if (policy_ >= 0 && (sched_getscheduler(0) != policy_ || now.sched_priority != parameters_.sched_priority)) {
            // This also sets what pthread_getschedparam remembers.
            pthread_setschedparam(pthread_self(), policy_, &parameters_);
        }
    }

  private:
    int policy_;
    sched_param parameters_{};
#endif
};

// Returns the name and the version (major, minor, micro) of each library of the FFmpeg in use. It need not be the
// FFmpeg that this was compiled against.
std::vector<std::pair<std::string, std::tuple<unsigned, unsigned, unsigned>>> ffmpeg_versions();

// Returns "LGPL version 2.1 or later" if all of its libraries were built so; otherwise the strictest licence among
// them.
std::string ffmpeg_license();

std::vector<std::string> ffmpeg_filters();

// Returns the advice for users whose FFmpeg was built without the part that an error names.
std::string remedy_for_missing_part();

// The largest time that is taken for one, in any unit, before and after 0. Sums of such times, or of their durations,
// do not overflow. libav's own sums do not either.
inline constexpr std::int64_t kMaxTime = std::int64_t{1} << 60;

// Throws MediaError if a time is out of these bounds. AV_NOPTS_VALUE, which stands for no time, is not.
void check_time(std::int64_t time, const char* what = "the time of a frame");

// Returns after how long the clock of a stream begins again, in units of its time base; 0 if it does not. FFmpeg adds
// as much to later times, and also to the times of another file that follows and whose clock is further back: so half
// of it ahead counts as later.
std::int64_t clock_period(const AVStream& stream);

// Returns a time in another unit, rounded to the nearest. Throws MediaError if it is out of these bounds in either
// unit.
std::int64_t rescale_time(std::int64_t time, AVRational from, AVRational to);

}  // namespace spdl
