#include "ffmpeg/channel_layout.h"

#include <algorithm>
#include <cstddef>

namespace spdl {

std::string channel_layout_text(const AVChannelLayout& layout) {
    // libav says how much room the text needs, some releases without the zero that ends it.
    std::string text(64, '\0');
    int needed = av_channel_layout_describe(&layout, text.data(), text.size());
    if (needed >= static_cast<int>(text.size())) {
        text.resize(static_cast<std::size_t>(needed) + 1);
        needed = av_channel_layout_describe(&layout, text.data(), text.size());
    }
    if (needed < 0) {
        return "";
    }
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

}  // namespace spdl
