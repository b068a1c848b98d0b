#include "core/channels.h"

namespace spdl {

std::optional<Channels> parse_channels(std::string_view pixel_format) {
    for (const Channels channels : {Channels::kRgb, Channels::kBgr, Channels::kGray}) {
        if (pixel_format == pixel_format_name(channels)) {
            return channels;
        }
    }
    return std::nullopt;
}

const char* pixel_format_name(Channels channels) {
    switch (channels) {
        case Channels::kBgr:
            return "bgr24";
        case Channels::kGray:
            return "gray";
        case Channels::kRgb:
            break;
    }
    return "rgb24";
}

}  // namespace spdl
