#!/usr/bin/env bash
# Configures, builds and installs FFmpeg as shared libraries that live beside any other FFmpeg in one process.
# Wants spdl-cc and nasm on PATH, and the libraries it links in PREFIX. No part under the GPL is asked for.
# Usage: scripts/bundle/ffmpeg.sh SOURCE PREFIX
set -euo pipefail

readonly source=$1 prefix=$2

# Names that configure does not know are an error below. Left out is what the GPL covers, and what opens files that a
# medium or a filter names: the demuxers concat, hls and image2, the filters movie, amovie and subtitles; and what is known
# to reach memory that is not its own: the decoder cfhd, the filter swaprect, the encoder pcm_dvd.
readonly demuxers='
  mov matroska avi mpegts mpegps mpegvideo flv ogg wav w64 mp3 flac aac ac3 eac3 dts aiff caf au asf wv tta ape dv
  nut mxf amr voc g722 gsm gif apng ivf h264 hevc av1 obu m4v vc1 mjpeg rawvideo yuv4mpegpipe image2pipe image_*_pipe pcm_*
'
readonly decoders='
  h264 hevc vp8 vp9 libdav1d mpeg1video mpeg2video mpeg4 msmpeg4v1 msmpeg4v2 msmpeg4v3 h263 h263p flv vp6 vp6a
  vp6f wmv1 wmv2 wmv3 vc1 vp3 theora prores dnxhd dvvideo svq1 svq3 cinepak msvideo1 qtrle ffv1 ffvhuff
  huffyuv utvideo magicyuv v210 rawvideo mjpeg png apng webp gif bmp tiff pbm pgm ppm pam jpeg2000 exr hdr qoi
  targa aac aac_latm ac3 eac3 dca truehd mlp mp1 mp1float mp2 mp2float mp3 mp3float flac opus vorbis alac
  wavpack tta ape wmav1 wmav2 wmapro wmalossless amrnb amrwb gsm gsm_ms speex dvaudio s302m pcm_* adpcm_*
'
readonly parsers='
  h264 hevc vp8 vp9 av1 mpegvideo mpeg4video mjpeg png webp gif bmp aac aac_latm ac3 dca mlp mpegaudio flac
  opus vorbis amr gsm vc1 vp3 h263 dnxhd dvaudio jpeg2000 pnm hdr qoi
'
readonly bsfs='
  h264_mp4toannexb hevc_mp4toannexb h264_metadata hevc_metadata h264_redundant_pps av1_frame_split
  av1_frame_merge av1_metadata vp9_superframe vp9_superframe_split vp9_metadata vp9_raw_reorder mpeg2_metadata
  mpeg4_unpack_bframes prores_metadata aac_adtstoasc eac3_core truehd_core opus_metadata pcm_rechunk
  extract_extradata dump_extradata remove_extradata filter_units trace_headers showinfo dts2pts null setts
  noise
'
readonly encoders='
  mjpeg png gif bmp tiff ppm pgm qoi libvpx_vp9 mpeg1video mpeg2video mpeg4 h263 flv prores prores_aw
  prores_ks dnxhd ffv1 ffvhuff huffyuv utvideo rawvideo wrapped_avframe libopus opus aac ac3 mp2 flac alac
  wavpack tta pcm_* adpcm_ima_wav adpcm_ms
'
readonly muxers='
  mov mp4 ipod tgp matroska matroska_audio webm avi mpegts mpeg1system mpeg2vob flv nut ogg oga ogv opus wav
  w64 aiff caf au mp2 mp3 flac adts latm ac3 wv tta ivf obu h264 hevc m4v mjpeg mpeg1video mpeg2video gif
  image2 image2pipe rawvideo yuv4mpegpipe null pcm_*
'
readonly general_filters='
  null anull copy acopy fps framerate framestep minterpolate trim atrim setpts asetpts settb asettb tpad apad
  loop aloop reverse areverse concat split asplit select aselect segment asegment interleave ainterleave
  streamselect astreamselect sidedata asidedata perms aperms showinfo ashowinfo nullsink anullsink format
  noformat aformat aresample asetrate asetnsamples setsar setdar setfield setrange setparams nullsrc anullsrc
  color testsrc testsrc2 smptebars smptehdbars rgbtestsrc yuvtestsrc allrgb allyuv colorchart gradients
  mandelbrot life sierpinski sine aevalsrc anoisesrc sinc hilbert
'
readonly video_filters='
  scale scale2ref crop pad fillborders transpose hflip vflip rotate shear zoompan scroll lenscorrection v360
  remap displace hstack vstack xstack overlay blend tblend xfade mix tmix tile untile alphaextract alphamerge
  extractplanes mergeplanes shuffleplanes shuffleframes shufflepixels random swapuv premultiply
  unpremultiply colorspace colormap colorkey chromakey lumakey lut lutrgb lutyuv lut2 curves hue huesaturation
  colorbalance colorchannelmixer colorcontrast colorcorrect colorhold colorize colorlevels colortemperature
  chromahold chromashift rgbashift chromanr exposure vibrance grayworld greyedge monochrome pseudocolor
  selectivecolor limiter negate normalize elbg palettegen paletteuse tonemap vignette fade drawbox drawgrid
  noise gblur avgblur bilateral dblur varblur convolution convolve unsharp cas median removegrain nlmeans bm3d
  atadenoise dctdnoiz fftdnoiz deband deblock gradfun dilation erosion inflate deflate morpho edgedetect sobel
  prewitt roberts scharr kirsch threshold maskedclamp maskedmerge multiply pixelize geq deshake deflicker
  dejudder decimate thumbnail idet yadif bwdif estdif w3fdif fieldmatch fieldorder separatefields weave
  doubleweave telecine detelecine il blackdetect freezedetect scdet bbox signalstats entropy siti blurdetect
  blockdetect vfrdet identity msad corr histogram waveform vectorscope
'
readonly audio_filters='
  volume volumedetect pan channelmap channelsplit join amerge amix amultiply adelay aeval atempo afade
  acrossfade acrossover adenorm aecho aemphasis aexciter afreqshift aphaseshift aphaser acompressor acontrast
  acrusher adeclick adeclip adrc adynamicequalizer adynamicsmooth agate alimiter allpass anequalizer anlmdn
  anlms arls asoftclip asubboost asubcut asupercut asuperpass asuperstop atilt bandpass bandreject bass biquad
  chorus compand compensationdelay crossfeed crystalizer dcshift deesser dialoguenhance dynaudnorm earwax
  equalizer extrastereo firequalizer flanger haas highpass highshelf loudnorm lowpass lowshelf mcompand
  sidechaincompress sidechaingate silencedetect silenceremove speechnorm stereotools stereowiden
  superequalizer surround treble tremolo vibrato virtualbass afftdn afftfilt afir aiir afwtdn axcorrelate asdr
  asisdr apsnr astats aspectralstats aphasemeter ebur128 drmeter replaygain ahistogram showcqt showfreqs
  showspatial showspectrum showspectrumpic showvolume showwaves showwavespic
'
# For paths that the user gives.
readonly protocols=file

# enabled KIND NAMES: the option that enables these parts.
enabled() { printf -- '--enable-%s=%s' "$1" "$(xargs <<<"$2" | tr ' ' ',')"; }

# The heads of these files put them under the GPL, though configure takes them without it: the filter perlin, which is
# left out above, and what computes AC-3 on ARM, for which there is portable code.
sed -i '/ac3dsp/d' "$source/libavcodec/aarch64/Makefile"
sed -i '/ff_ac3dsp_init_aarch64(c);/d' "$source/libavcodec/ac3dsp.c"

# configure finds the static libraries of PREFIX and nothing of the machine's own.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig

# The configuration is part of the library, and names no folder of this machine.
readonly stand_in=/spdl-prefix
"$source/configure" --prefix=$stand_in --cc=spdl-cc --cxx=spdl-c++ --pkg-config-flags=--static \
  --disable-everything --disable-autodetect --disable-doc --disable-programs --disable-avdevice --disable-network \
  --disable-debug --disable-static --enable-shared --enable-pic \
  --enable-zlib --enable-libdav1d --enable-libvpx --enable-libopus \
  --enable-protocol="$protocols" "$(enabled demuxer "$demuxers")" "$(enabled decoder "$decoders")" \
  "$(enabled parser "$parsers")" "$(enabled bsf "$bsfs")" "$(enabled encoder "$encoders")" "$(enabled muxer "$muxers")" \
  --disable-encoder=pcm_dvd \
  "$(enabled filter "$general_filters $video_filters $audio_filters")" \
  >configure.log 2>&1 || { cat configure.log ffbuild/config.log | tail -n 60; exit 1; }
if grep 'did not match anything' configure.log; then
  exit 1
fi
grep -q '^License: LGPL version 2.1 or later' configure.log || { grep '^License' configure.log; exit 1; }

# The glibc to run on still has the function, but zig's headers, which are newer, declare it no more.
sed -i 's/^#define HAVE_SYSCTL 1$/#define HAVE_SYSCTL 0/' config.h

# Versions of symbols of our own: a process may hold another FFmpeg 7 whose symbols are open to all libraries.
make -j"$(nproc)" VERSION_SCRIPT_POSTPROCESS_CMD="sed 's/^LIB/SPDL_LIB/'"
# None of the files that were compiled may be under the GPL, whatever configure says of the whole.
find . -name '*.d' -exec grep -ho 'src/[^ :]*' {} + | sort -u >compiled
grep -q '^src/libavcodec/ac3dsp.c$' compiled
covered=$(xargs grep -l 'GNU General Public License' <compiled || true)
[[ -z $covered ]] || { printf 'under the GPL: %s\n' "$covered"; exit 1; }
make install DESTDIR="$PWD/installed"
sed -i "s|$stand_in|$prefix|g" "installed$stand_in"/lib/pkgconfig/*.pc
cp -a "installed$stand_in"/. "$prefix/"
