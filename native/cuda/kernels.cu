// Each thread makes one pixel; the third side of the grid is the image. The pixels are the same as on our CPU path:
// libjpeg's upsampling and colours, and Pillow's resize.

namespace spdl::cuda::kernels {

__device__ inline int clamp_byte(int value) {
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

__device__ inline int at_x() {
    return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__device__ inline int at_y() {
    return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
}

// Returns the sample beside `at` that lies nearer to the pixel: libjpeg's "fancy" upsampling weighs it by a quarter.
__device__ inline int neighbour(int pixel, int at, int count) {
    const int other = pixel % 2 == 0 ? at - 1 : at + 1;
    return other < 0 || other >= count ? at : other;
}

// libjpeg interpolates where two pixels share a sample in a direction, and repeats samples elsewhere, and in images
// that are too narrow.
__device__ inline int chroma(const JpegImage& image, const Byte* plane, int x, int y) {
    const int column = x / image.across;
    const int row = y / image.down;
    const Byte* const line = plane + static_cast<long long>(row) * image.chroma_pitch;
    const bool wide = image.chroma_width > 2;
    if (image.across == 2 && image.down == 1 && wide) {
        const int beside = neighbour(x, column, image.chroma_width);
        return beside == column ? line[column] : (3 * line[column] + line[beside] + 1 + x % 2) >> 2;
    }
    if (image.across == 1 && image.down == 2) {
        const int beside = neighbour(y, row, image.chroma_height);
        return (3 * line[column] + plane[static_cast<long long>(beside) * image.chroma_pitch + column] + 1 + y % 2) >>
               2;
    }
    if (image.across == 2 && image.down == 2 && wide) {
        const Byte* const near =
            plane + static_cast<long long>(neighbour(y, row, image.chroma_height)) * image.chroma_pitch;
        const int beside = neighbour(x, column, image.chroma_width);
        const int here = 3 * line[column] + near[column];
        const int there = 3 * line[beside] + near[beside];
        return (3 * here + there + 8 - x % 2) >> 4;
    }
    return line[column];
}

extern "C" __global__ void convert_planes(JpegArguments arguments) {
    const JpegImage& image = arguments.images[blockIdx.z];
    const int x = at_x();
    const int y = at_y();
    if (x >= image.width || y >= image.height) {
        return;
    }
    const int luma = image.luma[static_cast<long long>(y) * image.luma_pitch + x];
    Byte* const pixel = image.pixels + 3 * (static_cast<long long>(y) * image.width + x);
    if (image.blue == nullptr || arguments.order == kGray) {
        pixel[0] = pixel[1] = pixel[2] = static_cast<Byte>(luma);
        return;
    }
    // libjpeg's factors, with 16 binary places.
    const int blue = chroma(image, image.blue, x, y) - 128;
    const int red = chroma(image, image.red, x, y) - 128;
    const int values[3] = {luma + ((91881 * red + 32768) >> 16), luma + ((-22554 * blue - 46802 * red + 32768) >> 16),
                           luma + ((116130 * blue + 32768) >> 16)};
    const bool blue_first = arguments.order == kBlueFirst;
    pixel[0] = static_cast<Byte>(clamp_byte(values[blue_first ? 2 : 0]));
    pixel[1] = static_cast<Byte>(clamp_byte(values[1]));
    pixel[2] = static_cast<Byte>(clamp_byte(values[blue_first ? 0 : 2]));
}

// Weighs the samples of an output; `from` is the sample at place 0, and `step` leads to the next.
__device__ inline void weigh(const Filter& filter, int output, const Byte* from, long long step, Byte* pixel) {
    const int* const weights = filter.weights + static_cast<long long>(output) * filter.stride;
    const int taps = filter.taps[output];
    from += filter.first[output] * step;
    int sums[3] = {1 << 21, 1 << 21, 1 << 21};
    for (int tap = 0; tap < taps; ++tap, from += step) {
        const int weight = weights[tap];
        sums[0] += weight * from[0];
        sums[1] += weight * from[1];
        sums[2] += weight * from[2];
    }
    for (int channel = 0; channel < 3; ++channel) {
        pixel[channel] = static_cast<Byte>(clamp_byte(sums[channel] >> 22));
    }
}

extern "C" __global__ void filter_pixels(PassArguments arguments) {
    const Pass& pass = arguments.passes[blockIdx.z];
    const int x = at_x();
    const int y = at_y();
    if (x >= pass.width || y >= pass.height) {
        return;
    }
    Byte* const to = pass.to + 3 * (static_cast<long long>(y) * pass.width + x);
    if (pass.down != 0) {
        weigh(pass.filter, y, pass.from + 3LL * x, pass.from_pitch, to);
    } else {
        weigh(pass.filter, x, pass.from + static_cast<long long>(y) * pass.from_pitch, 3, to);
    }
}

__device__ inline void resized_pixel(const CanvasImage& image, int column, int row, Byte* pixel) {
    if (image.pass == kAcross) {
        weigh(image.filter, column, image.from + static_cast<long long>(row) * image.from_pitch, 3, pixel);
        return;
    }
    if (image.pass == kDown) {
        weigh(image.filter, row, image.from + 3LL * column, image.from_pitch, pixel);
        return;
    }
    const bool nearest = image.pass == kNearest;
    const Byte* const from = image.from + static_cast<long long>(nearest ? image.rows[row] : row) * image.from_pitch +
                             3LL * (nearest ? image.columns[column] : column);
    pixel[0] = from[0];
    pixel[1] = from[1];
    pixel[2] = from[2];
}

extern "C" __global__ void write_canvas(CanvasArguments arguments) {
    const CanvasImage& image = arguments.images[blockIdx.z];
    const int x = at_x();
    const int y = at_y();
    if (x >= arguments.width || y >= arguments.height) {
        return;
    }
    Byte pixel[3] = {0, 0, 0};
    if (x >= image.left && x < image.right && y >= image.top && y < image.bottom) {
        const int across = image.transposed != 0 ? y - image.top : x - image.left;
        int row = image.transposed != 0 ? x - image.left : y - image.top;
        if (image.last_first != 0) {
            row = (image.transposed != 0 ? image.right - image.left : image.bottom - image.top) - 1 - row;
        }
        resized_pixel(image, across, row, pixel);
    }
    const long long at = static_cast<long long>(y) * arguments.width + x;
    const long long plane = static_cast<long long>(arguments.width) * arguments.height;
    for (int channel = 0; channel < arguments.channels; ++channel) {
        const long long element = arguments.planar != 0 ? channel * plane + at : at * arguments.channels + channel;
        const int value = 256 * channel + pixel[channel];
        if (arguments.values == nullptr) {
            image.to[element] = pixel[channel];
        } else if (arguments.element == 2) {
            reinterpret_cast<unsigned short*>(image.to)[element] =
                static_cast<const unsigned short*>(arguments.values)[value];
        } else {
            reinterpret_cast<float*>(image.to)[element] = static_cast<const float*>(arguments.values)[value];
        }
    }
}

__device__ inline int yuv_sample(const Byte* frame, long long at, const YuvFactors& factors) {
    return factors.deep != 0 ? reinterpret_cast<const unsigned short*>(frame)[at] >> factors.unused_bits : frame[at];
}

// Finds red, green and blue of a pixel of a frame with rows of `pitch` samples, `rows` of luma. Chroma samples are
// repeated. Gray is what luma alone says.
__device__ inline void yuv_colors(const Byte* frame, int pitch, int rows, int x, int y, const YuvFactors& factors,
                                  bool gray, Byte* colors) {
    const long long pair = (static_cast<long long>(rows) + y / 2) * pitch + x / 2 * 2;
    const int luma =
        (yuv_sample(frame, static_cast<long long>(y) * pitch + x, factors) - factors.luma_offset) * factors.luma +
        (1 << (kPlaces - 1));
    const int blue = gray ? 0 : yuv_sample(frame, pair, factors) - factors.chroma_offset;
    const int red = gray ? 0 : yuv_sample(frame, pair + 1, factors) - factors.chroma_offset;
    colors[0] = static_cast<Byte>(clamp_byte((luma + factors.red_of_red * red) >> kPlaces));
    colors[1] =
        static_cast<Byte>(clamp_byte((luma + factors.green_of_blue * blue + factors.green_of_red * red) >> kPlaces));
    colors[2] = static_cast<Byte>(clamp_byte((luma + factors.blue_of_blue * blue) >> kPlaces));
}

extern "C" __global__ void convert_to_planes(PlanesArguments arguments) {
    const int x = at_x();
    const int y = at_y();
    if (x >= arguments.width || y >= arguments.height) {
        return;
    }
    const YuvFactors& factors = arguments.factors;
    const long long plane = static_cast<long long>(arguments.width) * arguments.height;
    const long long bytes = (plane + plane / 2) * (factors.deep != 0 ? 2 : 1);
    Byte colors[3];
    yuv_colors(arguments.from + blockIdx.z * bytes, arguments.width, arguments.height, x, y, factors, false, colors);
    Byte* const to = arguments.to + blockIdx.z * 3 * plane + static_cast<long long>(y) * arguments.width + x;
    const bool blue_first = arguments.order == kBlueFirst;
    to[0] = colors[blue_first ? 2 : 0];
    to[plane] = colors[1];
    to[2 * plane] = colors[blue_first ? 0 : 2];
}

extern "C" __global__ void convert_to_pixels(PixelsArguments arguments) {
    const int x = at_x();
    const int y = at_y();
    if (x >= arguments.width || y >= arguments.height) {
        return;
    }
    const YuvImage& image = arguments.images[blockIdx.z];
    Byte colors[3];
    yuv_colors(image.from, arguments.pitch, arguments.rows, x, y, arguments.factors, arguments.order == kGray, colors);
    Byte* const pixel = image.pixels + 3 * (static_cast<long long>(y) * arguments.width + x);
    const bool blue_first = arguments.order == kBlueFirst;
    pixel[0] = colors[blue_first ? 2 : 0];
    pixel[1] = colors[1];
    pixel[2] = colors[blue_first ? 0 : 2];
}

}  // namespace spdl::cuda::kernels
