#include "image/jpeg/jpeg_format.h"

#include <algorithm>

#include "core/plane_sink.h"

namespace spdl {

Size chroma_grid(const jpeg_decompress_struct& codec) {
    if (codec.num_components != 3) {
        return {1, 1};
    }
    const auto share = [](int luma, int chroma) { return std::max(luma / std::max(chroma, 1), 1); };
    return {share(codec.comp_info[0].h_samp_factor, codec.comp_info[1].h_samp_factor),
            share(codec.comp_info[0].v_samp_factor, codec.comp_info[1].v_samp_factor)};
}

const char* pixel_format(const jpeg_decompress_struct& codec) {
    if (codec.num_components == 1) {
        return "gray";
    }
    if (codec.num_components == 4) {
        return codec.jpeg_color_space == JCS_YCCK ? "yuva444p" : "gbrap";
    }
    if (codec.jpeg_color_space == JCS_RGB) {
        return "gbrp";
    }
    const auto [horizontal, vertical] = chroma_grid(codec);
    if (vertical == 1) {
        return horizontal == 1 ? "yuvj444p" : horizontal == 2 ? "yuvj422p" : "yuvj411p";
    }
    return horizontal == 1 ? "yuvj440p" : "yuvj420p";
}

bool has_planes(const jpeg_decompress_struct& codec) {
    if (codec.num_components != kPlanes || codec.jpeg_color_space != JCS_YCbCr || codec.data_precision != 8 ||
        (codec.progressive_mode == FALSE && codec.Se != DCTSIZE2 - 1)) {
        return false;
    }
    const jpeg_component_info& luma = codec.comp_info[kLuma];
    const jpeg_component_info& blue = codec.comp_info[kBlueChroma];
    const jpeg_component_info& red = codec.comp_info[kRedChroma];
    const auto once_or_twice = [](int of, int factor) { return of == factor || of == 2 * factor; };
    return blue.h_samp_factor == red.h_samp_factor && blue.v_samp_factor == red.v_samp_factor &&
           once_or_twice(luma.h_samp_factor, blue.h_samp_factor) &&
           once_or_twice(luma.v_samp_factor, blue.v_samp_factor);
}

}  // namespace spdl
