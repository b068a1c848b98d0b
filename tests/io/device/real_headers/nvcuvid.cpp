// FFmpeg's copies of NVIDIA's headers, in which the functions are types whose names begin with t.
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_cuviddec.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

#include "alike.h"
#include "cuda/nvcuvid.h"

using namespace spdl::cuda;

#define SAME_TYPE(ours, theirs) static_assert(alike(decltype(Nvcuvid::ours){}, static_cast<theirs*>(nullptr)), #theirs)

SAME_TYPE(capabilities, tcuvidGetDecoderCaps);
SAME_TYPE(create_decoder, tcuvidCreateDecoder);
SAME_TYPE(destroy_decoder, tcuvidDestroyDecoder);
SAME_TYPE(decode, tcuvidDecodePicture);
SAME_TYPE(decode_status, tcuvidGetDecodeStatus);
SAME_TYPE(reconfigure, tcuvidReconfigureDecoder);
SAME_TYPE(map, tcuvidMapVideoFrame64);
SAME_TYPE(unmap, tcuvidUnmapVideoFrame64);
SAME_TYPE(create_parser, tcuvidCreateVideoParser);
SAME_TYPE(parse, tcuvidParseVideoData);
SAME_TYPE(destroy_parser, tcuvidDestroyVideoParser);

SAME_VALUE(VideoCodec::kMpeg1, cudaVideoCodec_MPEG1);
SAME_VALUE(VideoCodec::kMpeg2, cudaVideoCodec_MPEG2);
SAME_VALUE(VideoCodec::kMpeg4, cudaVideoCodec_MPEG4);
SAME_VALUE(VideoCodec::kVc1, cudaVideoCodec_VC1);
SAME_VALUE(VideoCodec::kH264, cudaVideoCodec_H264);
SAME_VALUE(VideoCodec::kHevc, cudaVideoCodec_HEVC);
SAME_VALUE(VideoCodec::kVp8, cudaVideoCodec_VP8);
SAME_VALUE(VideoCodec::kVp9, cudaVideoCodec_VP9);
SAME_VALUE(VideoCodec::kAv1, cudaVideoCodec_AV1);
SAME_VALUE(ChromaFormat::kMonochrome, cudaVideoChromaFormat_Monochrome);
SAME_VALUE(ChromaFormat::k420, cudaVideoChromaFormat_420);
SAME_VALUE(ChromaFormat::k422, cudaVideoChromaFormat_422);
SAME_VALUE(ChromaFormat::k444, cudaVideoChromaFormat_444);
SAME_VALUE(SurfaceFormat::kNv12, cudaVideoSurfaceFormat_NV12);
SAME_VALUE(SurfaceFormat::kP016, cudaVideoSurfaceFormat_P016);
SAME_VALUE(kDamaged, cuvidDecodeStatus_Error);
SAME_VALUE(kConcealed, cuvidDecodeStatus_Error_Concealed);
SAME_VALUE(VideoDecoderOptions{}.flags, cudaVideoCreate_PreferCUVID);
SAME_VALUE(VideoDecoderOptions{}.deinterlace, cudaVideoDeinterlaceMode_Weave);
SAME_VALUE(kEndOfStream, CUVID_PKT_ENDOFSTREAM);
SAME_VALUE(kHasTimestamp, CUVID_PKT_TIMESTAMP);
SAME_VALUE(kEndOfPicture, CUVID_PKT_ENDOFPICTURE);

SAME_SIZE(VideoCapabilities, CUVIDDECODECAPS);
SAME_FIELD(VideoCapabilities, codec, CUVIDDECODECAPS, eCodecType);
SAME_FIELD(VideoCapabilities, chroma, CUVIDDECODECAPS, eChromaFormat);
SAME_FIELD(VideoCapabilities, bits_above_8, CUVIDDECODECAPS, nBitDepthMinus8);
SAME_FIELD(VideoCapabilities, supported, CUVIDDECODECAPS, bIsSupported);
SAME_FIELD(VideoCapabilities, engines, CUVIDDECODECAPS, nNumNVDECs);
SAME_FIELD(VideoCapabilities, surface_formats, CUVIDDECODECAPS, nOutputFormatMask);
SAME_FIELD(VideoCapabilities, max_width, CUVIDDECODECAPS, nMaxWidth);
SAME_FIELD(VideoCapabilities, max_height, CUVIDDECODECAPS, nMaxHeight);
SAME_FIELD(VideoCapabilities, max_macroblocks, CUVIDDECODECAPS, nMaxMBCount);
SAME_FIELD(VideoCapabilities, min_width, CUVIDDECODECAPS, nMinWidth);
SAME_FIELD(VideoCapabilities, min_height, CUVIDDECODECAPS, nMinHeight);

SAME_SIZE(VideoDecoderOptions, CUVIDDECODECREATEINFO);
SAME_FIELD(VideoDecoderOptions, width, CUVIDDECODECREATEINFO, ulWidth);
SAME_FIELD(VideoDecoderOptions, height, CUVIDDECODECREATEINFO, ulHeight);
SAME_FIELD(VideoDecoderOptions, decode_surfaces, CUVIDDECODECREATEINFO, ulNumDecodeSurfaces);
SAME_FIELD(VideoDecoderOptions, codec, CUVIDDECODECREATEINFO, CodecType);
SAME_FIELD(VideoDecoderOptions, chroma, CUVIDDECODECREATEINFO, ChromaFormat);
SAME_FIELD(VideoDecoderOptions, flags, CUVIDDECODECREATEINFO, ulCreationFlags);
SAME_FIELD(VideoDecoderOptions, bits_above_8, CUVIDDECODECREATEINFO, bitDepthMinus8);
SAME_FIELD(VideoDecoderOptions, intra_only, CUVIDDECODECREATEINFO, ulIntraDecodeOnly);
SAME_FIELD(VideoDecoderOptions, max_width, CUVIDDECODECREATEINFO, ulMaxWidth);
SAME_FIELD(VideoDecoderOptions, max_height, CUVIDDECODECREATEINFO, ulMaxHeight);
SAME_FIELD(VideoDecoderOptions, shown, CUVIDDECODECREATEINFO, display_area);
SAME_FIELD(VideoDecoderOptions, surface, CUVIDDECODECREATEINFO, OutputFormat);
SAME_FIELD(VideoDecoderOptions, deinterlace, CUVIDDECODECREATEINFO, DeinterlaceMode);
SAME_FIELD(VideoDecoderOptions, target_width, CUVIDDECODECREATEINFO, ulTargetWidth);
SAME_FIELD(VideoDecoderOptions, target_height, CUVIDDECODECREATEINFO, ulTargetHeight);
SAME_FIELD(VideoDecoderOptions, output_surfaces, CUVIDDECODECREATEINFO, ulNumOutputSurfaces);
SAME_FIELD(VideoDecoderOptions, lock, CUVIDDECODECREATEINFO, vidLock);
SAME_FIELD(VideoDecoderOptions, target, CUVIDDECODECREATEINFO, target_rect);

SAME_SIZE(VideoReconfiguration, CUVIDRECONFIGUREDECODERINFO);
SAME_FIELD(VideoReconfiguration, width, CUVIDRECONFIGUREDECODERINFO, ulWidth);
SAME_FIELD(VideoReconfiguration, height, CUVIDRECONFIGUREDECODERINFO, ulHeight);
SAME_FIELD(VideoReconfiguration, target_width, CUVIDRECONFIGUREDECODERINFO, ulTargetWidth);
SAME_FIELD(VideoReconfiguration, target_height, CUVIDRECONFIGUREDECODERINFO, ulTargetHeight);
SAME_FIELD(VideoReconfiguration, decode_surfaces, CUVIDRECONFIGUREDECODERINFO, ulNumDecodeSurfaces);
SAME_FIELD(VideoReconfiguration, shown, CUVIDRECONFIGUREDECODERINFO, display_area);
SAME_FIELD(VideoReconfiguration, target, CUVIDRECONFIGUREDECODERINFO, target_rect);

SAME_SIZE(VideoPostprocessing, CUVIDPROCPARAMS);
SAME_FIELD(VideoPostprocessing, progressive, CUVIDPROCPARAMS, progressive_frame);
SAME_FIELD(VideoPostprocessing, second_field, CUVIDPROCPARAMS, second_field);
SAME_FIELD(VideoPostprocessing, top_field_first, CUVIDPROCPARAMS, top_field_first);
SAME_FIELD(VideoPostprocessing, unpaired_field, CUVIDPROCPARAMS, unpaired_field);
SAME_FIELD(VideoPostprocessing, stream, CUVIDPROCPARAMS, output_stream);
SAME_FIELD(VideoPostprocessing, histogram, CUVIDPROCPARAMS, histogram_dptr);

SAME_SIZE(VideoDecodeStatus, CUVIDGETDECODESTATUS);
SAME_FIELD(VideoDecodeStatus, status, CUVIDGETDECODESTATUS, decodeStatus);

SAME_SIZE(VideoFormat, CUVIDEOFORMAT);
SAME_FIELD(VideoFormat, codec, CUVIDEOFORMAT, codec);
SAME_FIELD(VideoFormat, rate_numerator, CUVIDEOFORMAT, frame_rate.numerator);
SAME_FIELD(VideoFormat, rate_denominator, CUVIDEOFORMAT, frame_rate.denominator);
SAME_FIELD(VideoFormat, progressive, CUVIDEOFORMAT, progressive_sequence);
SAME_FIELD(VideoFormat, luma_bits_above_8, CUVIDEOFORMAT, bit_depth_luma_minus8);
SAME_FIELD(VideoFormat, chroma_bits_above_8, CUVIDEOFORMAT, bit_depth_chroma_minus8);
SAME_FIELD(VideoFormat, least_decode_surfaces, CUVIDEOFORMAT, min_num_decode_surfaces);
SAME_FIELD(VideoFormat, coded_width, CUVIDEOFORMAT, coded_width);
SAME_FIELD(VideoFormat, coded_height, CUVIDEOFORMAT, coded_height);
SAME_FIELD(VideoFormat, shown, CUVIDEOFORMAT, display_area);
SAME_FIELD(VideoFormat, chroma, CUVIDEOFORMAT, chroma_format);
SAME_FIELD(VideoFormat, bit_rate, CUVIDEOFORMAT, bitrate);
SAME_FIELD(VideoFormat, aspect_x, CUVIDEOFORMAT, display_aspect_ratio.x);
SAME_FIELD(VideoFormat, primaries, CUVIDEOFORMAT, video_signal_description.color_primaries);
SAME_FIELD(VideoFormat, transfer, CUVIDEOFORMAT, video_signal_description.transfer_characteristics);
SAME_FIELD(VideoFormat, matrix, CUVIDEOFORMAT, video_signal_description.matrix_coefficients);
SAME_FIELD(VideoFormat, header_bytes, CUVIDEOFORMAT, seqhdr_data_length);

SAME_SIZE(VideoPacket, CUVIDSOURCEDATAPACKET);
SAME_FIELD(VideoPacket, flags, CUVIDSOURCEDATAPACKET, flags);
SAME_FIELD(VideoPacket, size, CUVIDSOURCEDATAPACKET, payload_size);
SAME_FIELD(VideoPacket, data, CUVIDSOURCEDATAPACKET, payload);
SAME_FIELD(VideoPacket, timestamp, CUVIDSOURCEDATAPACKET, timestamp);

SAME_SIZE(ShownPicture, CUVIDPARSERDISPINFO);
SAME_FIELD(ShownPicture, index, CUVIDPARSERDISPINFO, picture_index);
SAME_FIELD(ShownPicture, progressive, CUVIDPARSERDISPINFO, progressive_frame);
SAME_FIELD(ShownPicture, top_field_first, CUVIDPARSERDISPINFO, top_field_first);
SAME_FIELD(ShownPicture, repeat_first_field, CUVIDPARSERDISPINFO, repeat_first_field);
SAME_FIELD(ShownPicture, timestamp, CUVIDPARSERDISPINFO, timestamp);

SAME_SIZE(VideoParserOptions, CUVIDPARSERPARAMS);
SAME_FIELD(VideoParserOptions, codec, CUVIDPARSERPARAMS, CodecType);
SAME_FIELD(VideoParserOptions, max_decode_surfaces, CUVIDPARSERPARAMS, ulMaxNumDecodeSurfaces);
SAME_FIELD(VideoParserOptions, clock_rate, CUVIDPARSERPARAMS, ulClockRate);
SAME_FIELD(VideoParserOptions, error_threshold, CUVIDPARSERPARAMS, ulErrorThreshold);
SAME_FIELD(VideoParserOptions, max_display_delay, CUVIDPARSERPARAMS, ulMaxDisplayDelay);
SAME_FIELD(VideoParserOptions, user, CUVIDPARSERPARAMS, pUserData);
SAME_FIELD(VideoParserOptions, on_sequence, CUVIDPARSERPARAMS, pfnSequenceCallback);
SAME_FIELD(VideoParserOptions, on_decode, CUVIDPARSERPARAMS, pfnDecodePicture);
SAME_FIELD(VideoParserOptions, on_show, CUVIDPARSERPARAMS, pfnDisplayPicture);
SAME_FIELD(VideoParserOptions, on_operating_point, CUVIDPARSERPARAMS, pfnGetOperatingPoint);
SAME_FIELD(VideoParserOptions, extended_format, CUVIDPARSERPARAMS, pExtVideoInfo);
