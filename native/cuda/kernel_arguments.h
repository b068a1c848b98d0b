#pragma once

// The arguments of the kernels. NVRTC compiles this file in front of kernels.cu, so it includes nothing. Pointers are
// to memory on the device.
namespace spdl::cuda::kernels {

using Byte = unsigned char;

enum Order { kRedFirst, kBlueFirst, kGray };

// The planes of a decoded JPEG, and the pixels of three bytes that they become.
struct JpegImage {
    const Byte* luma;
    const Byte* blue;  // Chroma; null if none exists.
    const Byte* red;
    Byte* pixels;
    int width;
    int height;
    int chroma_width;
    int chroma_height;
    int luma_pitch;
    int chroma_pitch;
    int across;  // How many pixels share a chroma sample,
    int down;    // in either direction.
};

struct JpegArguments {
    const JpegImage* images;
    Order order;
};

// A ResampleTable.
struct Filter {
    const int* first;
    const int* taps;
    const int* weights;
    int stride;
};

// The first of the two passes of a resize, over pixels of three bytes.
struct Pass {
    const Byte* from;
    Byte* to;
    int from_pitch;
    int width;  // Of what comes out, whose rows lie together.
    int height;
    int down;  // Whether it works along columns.
    Filter filter;
};

struct PassArguments {
    const Pass* passes;
};

enum LastPass { kCopy, kAcross, kDown, kNearest };

// The last pass of a resize, and the place of the result.
struct CanvasImage {
    const Byte* from;
    int from_pitch;
    LastPass pass;
    Filter filter;
    const int* columns;  // For the nearest sample.
    const int* rows;
    Byte* to;
    // The part of the canvas that the image fills; the rest is black.
    int left;
    int top;
    int right;
    int bottom;
    int transposed;  // Rows become columns.
    int last_first;  // The last row comes first.
};

struct CanvasArguments {
    const CanvasImage* images;
    const void* values;  // What each byte becomes in each of three channels: 3 * 256 elements. Null for bytes.
    int element;         // The bytes of an element: 1, 2 or 4.
    int channels;
    int planar;
    int width;
    int height;
};

// The binary places of the factors below.
constexpr int kPlaces = 20;

// The factors of a video's samples in the colours, from 0 to 255, of a pixel.
struct YuvFactors {
    int luma_offset;
    int chroma_offset;
    int luma;
    int red_of_red;  // Of the chroma plane of red.
    int green_of_blue;
    int green_of_red;
    int blue_of_blue;
    int unused_bits;  // The lower ones of a sample.
    int deep;         // Whether samples take 16 bits, and not 8.
};

// Frames of NV12 or P016, which lie one after the other, and planes of red, green and blue.
struct PlanesArguments {
    const Byte* from;
    Byte* to;
    int width;
    int height;
    YuvFactors factors;
    Order order;
};

// A frame of NV12 or P016, and the pixels of three bytes that it becomes.
struct YuvImage {
    const Byte* from;
    Byte* pixels;
};

struct PixelsArguments {
    const YuvImage* images;
    int width;  // Of the picture.
    int height;
    int pitch;  // The samples in a row of the frame,
    int rows;   // and its rows of luma.
    YuvFactors factors;
    Order order;
};

}  // namespace spdl::cuda::kernels
