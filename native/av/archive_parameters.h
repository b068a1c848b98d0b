#pragma once

#include "av/archive_reader.h"
#include "av/archive_writer.h"
#include "ffmpeg/libav.h"

namespace spdl {

// What decoders must know of a stream, in an archive.

void write_rational(ArchiveWriter& writer, AVRational value);

// `may_be_unknown` is whether 0 is accepted.
AVRational read_rational(ArchiveReader& reader, const char* what, bool may_be_unknown);

void write_parameters(ArchiveWriter& writer, const AVCodecParameters& parameters);
CodecParametersPtr read_parameters(ArchiveReader& reader);

// Data beside packets, such as how many samples a decoder leaves out. Only kinds that change what is decoded.
void write_side_data(ArchiveWriter& writer, const AVPacket& packet);
void read_side_data(ArchiveReader& reader, AVPacket& packet);

}  // namespace spdl
