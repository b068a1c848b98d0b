#pragma once

#include <memory>

#include "av/packet_feed.h"
#include "av/stream.h"
#include "av/video_index.h"
#include "media/decode_options.h"

namespace spdl {

// Returns whether the first frames may build on pictures that are not there. Recordings begin anywhere: what precedes
// their first key frame builds on what was before, and so may frames that are decoded after it but shown before.
// `begins_with_key` says whether decoding can begin with the first packet.
bool may_lack_beginning(const VideoIndex& index, const Stream& stream, bool begins_with_key);

// Returns an index without the frames at the beginning that the decoder does not make, as what they build on is not
// there. Which ones these are, it knows best. The same index if it makes none at all, or fails. The feed is somewhere
// else then.
VideoIndex without_lost(VideoIndex index, PacketFeed& feed, const std::shared_ptr<const Stream>& stream,
                        const DecodeOptions& options);

}  // namespace spdl
