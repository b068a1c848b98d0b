#pragma once

#include <memory>

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
FramePtr reference(const AVFrame& frame);
PacketPtr reference(const AVPacket& packet);

}  // namespace spdl
