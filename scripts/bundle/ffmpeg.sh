#!/usr/bin/env bash
# Configures, builds and installs FFmpeg as shared libraries that live beside any other FFmpeg in one process.
# Wants spdl-cc and nasm on PATH, and the libraries it links in PREFIX. No part under the GPL is asked for.
# Usage: scripts/bundle/ffmpeg.sh SOURCE PREFIX
set -euo pipefail

readonly source=$1 prefix=$2

# One list a line; configure warns of a name that it does not know, which is an error below.
readonly demuxers=mov,matroska,avi,mpegts,mpegps,flv,ogg,wav,w64,mp3,flac,aac,aiff,caf,asf,wv,gif,apng,ivf,h264,hevc,av1,obu,m4v,mjpeg,image2,image2pipe,'image_*_pipe',rawvideo,'pcm_*',concat,yuv4mpegpipe
readonly decoders=h264,hevc,vp8,vp9,libdav1d,mpeg1video,mpeg2video,mpeg4,msmpeg4v2,msmpeg4v3,h263,flv,wmv1,wmv2,vc1,theora,prores,dnxhd,ffv1,huffyuv,rawvideo,mjpeg,png,apng,webp,gif,bmp,tiff,pbm,pgm,ppm,pam,jpeg2000,exr,hdr,qoi,targa,aac,ac3,eac3,mp3,mp3float,mp2,flac,opus,vorbis,alac,wavpack,wmav1,wmav2,'pcm_*','adpcm_*',amrnb,amrwb
readonly parsers=h264,hevc,vp8,vp9,av1,mpegvideo,mpeg4video,mjpeg,png,webp,gif,bmp,aac,aac_latm,ac3,mpegaudio,flac,opus,vorbis,vc1,h263,dnxhd,jpeg2000,qoi
readonly bsfs=h264_mp4toannexb,hevc_mp4toannexb,av1_frame_split,av1_frame_merge,vp9_superframe,vp9_superframe_split,aac_adtstoasc,extract_extradata,mpeg4_unpack_bframes,null,setts,noise
readonly encoders=mjpeg,png,gif,bmp,tiff,ffv1,mpeg4,rawvideo,aac,flac,alac,wavpack,'pcm_*',ppm,pgm,qoi,libvpx_vp9,libopus
readonly muxers=mov,mp4,matroska,webm,avi,mpegts,flv,ogg,wav,mp3,flac,adts,ipod,image2,image2pipe,gif,null,rawvideo,ivf,h264,hevc,wv,opus
readonly filters=scale,format,crop,fps,framerate,trim,atrim,setpts,asetpts,aresample,aformat,anull,null,pad,transpose,hflip,vflip,rotate,select,aselect,split,asplit,hstack,vstack,xstack,overlay,colorspace,lut,lutrgb,lutyuv,curves,hue,noise,gblur,unsharp,avgblur,drawbox,fade,afade,amix,amerge,atempo,volume,pan,channelmap,channelsplit,asetnsamples,asetrate,highpass,lowpass,bandpass,silenceremove,apad,loop,aloop,reverse,areverse,tile,thumbnail,settb,asettb,setsar,setdar,setfield,yadif,bwdif,idet,deshake,copy,acopy,concat,interleave,fieldorder,showinfo,ashowinfo,testsrc,testsrc2,color,sine,anullsrc,aevalsrc,mandelbrot,life,nullsrc,vignette,negate,colorchannelmixer,extractplanes,alphaextract,premultiply,blend,normalize,dynaudnorm,loudnorm,afftdn
readonly protocols=file,pipe,data,fd

# configure finds the static libraries of PREFIX and nothing of the machine's own.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig

# The configuration is part of the library, and names no folder of this machine.
readonly stand_in=/spdl-prefix
"$source/configure" --prefix=$stand_in --cc=spdl-cc --cxx=spdl-c++ --pkg-config-flags=--static \
  --disable-everything --disable-autodetect --disable-doc --disable-programs --disable-avdevice --disable-network \
  --disable-debug --disable-static --enable-shared --enable-pic \
  --enable-zlib --enable-libdav1d --enable-libvpx --enable-libopus \
  --enable-protocol="$protocols" --enable-demuxer="$demuxers" --enable-decoder="$decoders" --enable-parser="$parsers" \
  --enable-bsf="$bsfs" --enable-encoder="$encoders" --enable-muxer="$muxers" --enable-filter="$filters" \
  >configure.log 2>&1 || { cat configure.log ffbuild/config.log | tail -n 60; exit 1; }
if grep 'did not match anything' configure.log; then
  exit 1
fi
grep -q '^License: LGPL version 2.1 or later' configure.log || { grep '^License' configure.log; exit 1; }

# The glibc to run on still has the function, but zig's headers, which are newer, declare it no more.
sed -i 's/^#define HAVE_SYSCTL 1$/#define HAVE_SYSCTL 0/' config.h

# Versions of symbols of our own: a process may hold another FFmpeg 7 whose symbols are open to all libraries.
make -j"$(nproc)" VERSION_SCRIPT_POSTPROCESS_CMD="sed 's/^LIB/SPDL_LIB/'"
make install DESTDIR="$PWD/installed"
sed -i "s|$stand_in|$prefix|g" "installed$stand_in"/lib/pkgconfig/*.pc
cp -a "installed$stand_in"/. "$prefix/"
