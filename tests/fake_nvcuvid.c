// A stand-in for NVDEC over the fake driver. It decodes nothing: the tests say which frames a video has, by their times.
// Pictures come in the order of the packets and are shown in the order of their times, as late as real parsers show them.
//
// Pictures that a decoder could not make are gray: those before the first key frame that a parser gets, in the order of
// decoding and in that of showing, as they build on others.
//
// A mapped frame is written when its stream gets there, and is spoiled when it is returned. It counts what is created and
// never destroyed, surfaces that are used before they are free, and packets that are not in the form of a stream.

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void fake_enqueue(void* stream, void (*work)(void*, const unsigned*, const unsigned*), const void* given, size_t size);
int fake_enter(const char* name);
void fake_mistake(void);
int fake_in_context(void);

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_HANDLE = 400, UNKNOWN = 999 };
enum { DAMAGED = 8, GOOD = 2, GRAY = 0x55 };
enum { MOST_SURFACES = 64, H264 = 4, HEVC = 8, END_OF_STREAM = 1, HAS_TIMESTAMP = 2 };

typedef struct {
    int codec, chroma;
    unsigned bits_above_8, reserved1[3];
    unsigned char supported, engines;
    unsigned short surface_formats;
    unsigned max_width, max_height, max_macroblocks;
    unsigned short min_width, min_height;
    unsigned char histogram, counter_bits;
    unsigned short histogram_bins;
    unsigned reserved3[10];
} Capabilities;

typedef struct {
    unsigned long width, height, decode_surfaces;
    int codec, chroma;
    unsigned long flags, bits_above_8, intra_only, max_width, max_height, reserved1;
    short shown[4];
    int surface, deinterlace;
    unsigned long target_width, target_height, output_surfaces;
    void* lock;
    short target[4];
    unsigned long histogram, reserved2[4];
} Options;

typedef struct {
    unsigned width, height, target_width, target_height, decode_surfaces, reserved1[12];
    short shown[4], target[4];
    unsigned reserved2[11];
} Reconfiguration;

typedef struct {
    int status;
    unsigned reserved1[31];
    void* reserved2[8];
} DecodeStatus;

typedef struct {
    int progressive, second_field, top_field_first, unpaired_field;
    unsigned reserved_flags, reserved_zero;
    unsigned long long raw_input;
    unsigned raw_input_pitch, raw_input_format;
    unsigned long long raw_output;
    unsigned raw_output_pitch, reserved1;
    void* stream;
    unsigned reserved[46];
    unsigned long long* histogram;
    void* reserved2[1];
} Postprocessing;

typedef struct {
    int codec;
    unsigned rate_numerator, rate_denominator;
    unsigned char progressive, luma_bits_above_8, chroma_bits_above_8, least_decode_surfaces;
    unsigned coded_width, coded_height;
    int left, top, right, bottom;
    int chroma;
    unsigned bit_rate;
    int aspect_x, aspect_y;
    unsigned char signal, primaries, transfer, matrix;
    unsigned header_bytes;
} Format;

typedef struct {
    unsigned long flags, size;
    const unsigned char* data;
    long long timestamp;
} Packet;

typedef struct {
    int index, progressive, top_field_first, repeat_first_field;
    long long timestamp;
} Shown;

typedef struct {
    int codec;
    unsigned max_decode_surfaces, clock_rate, error_threshold, max_display_delay, annex_b, reserved1[4];
    void* user;
    int (*on_sequence)(void*, Format*);
    int (*on_decode)(void*, void*);
    int (*on_show)(void*, Shown*);
    int (*on_operating_point)(void*, void*);
    void* reserved2[6];
    void* extended_format;
} ParserOptions;

typedef struct {
    Options options;
    long long timestamp[MOST_SURFACES];
    int decoded[MOST_SURFACES], spoiled[MOST_SURFACES];
    unsigned mapped;
} Decoder;

typedef struct {
    ParserOptions options;
    int surfaces;  // 0 before the first sequence.
    int waiting, has_key;
    long long first_key;
    Shown pictures[MOST_SURFACES];
    int used[MOST_SURFACES];
} Parser;

typedef struct {
    unsigned char* to;
    unsigned pitch;
    int frame, spoiled;
    Options options;
} Fill;

// What the tests set: frames in NV12 or, with samples of 16 bits, in P016, and which of them decoding can begin with.
typedef struct {
    const unsigned char* frames;
    const long long* times;
    const unsigned char* keys;
    int count, width, height, sample_bytes;
    int supported, bits, chroma, reorder, matrix, full_range, shown_width, shown_height, damaged, surfaces;
} Video;

static Video video;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long decoders, parsers, mapped_frames;
static __thread long long current;
static __thread int current_spoiled;

void fake_video_set(const Video* wanted) { video = *wanted; }

static int frame_at(long long time) {
    int frame = 0;
    while (frame < video.count && video.times[frame] != time) ++frame;
    return frame;
}

static void count(long* counter, long by) {
    pthread_mutex_lock(&mutex);
    *counter += by;
    pthread_mutex_unlock(&mutex);
}

long fake_video_decoders(void) { return decoders; }
long fake_video_parsers(void) { return parsers; }
long fake_video_mapped(void) { return mapped_frames; }

#define ENTER                                 \
    if (!fake_in_context()) fake_mistake();   \
    const int entered = fake_enter(__func__); \
    if (entered != 0) return entered;

// For calls that give something back: they do so although they fail.
#define ENTER_TO_END                        \
    if (!fake_in_context()) fake_mistake(); \
    const int entered = fake_enter(__func__);

int cuvidGetDecoderCaps(Capabilities* capabilities) {
    ENTER
    capabilities->supported = (unsigned char)(video.supported && capabilities->chroma == 1);
    capabilities->surface_formats = (unsigned short)video.surfaces;
    capabilities->max_width = capabilities->max_height = 8192;
    capabilities->max_macroblocks = 262144;
    capabilities->min_width = capabilities->min_height = 16;
    return SUCCESS;
}

int cuvidCreateDecoder(Decoder** decoder, const Options* options) {
    ENTER
    if (options->decode_surfaces < 1 || options->decode_surfaces > MOST_SURFACES || options->target_width % 2 != 0 ||
        options->target_height % 2 != 0 || options->width > options->max_width || options->output_surfaces < 1) {
        return INVALID_VALUE;
    }
    *decoder = calloc(1, sizeof **decoder);
    (*decoder)->options = *options;
    count(&decoders, 1);
    return SUCCESS;
}

int cuvidDestroyDecoder(Decoder* decoder) {
    ENTER_TO_END
    if (decoder->mapped != 0) fake_mistake();
    free(decoder);
    count(&decoders, -1);
    return entered;
}

int cuvidReconfigureDecoder(Decoder* decoder, const Reconfiguration* wanted) {
    ENTER
    if (wanted->width > decoder->options.max_width || wanted->height > decoder->options.max_height ||
        wanted->decode_surfaces > decoder->options.decode_surfaces || decoder->mapped != 0) {
        return INVALID_VALUE;
    }
    decoder->options.width = wanted->width;
    decoder->options.height = wanted->height;
    decoder->options.target_width = wanted->target_width;
    decoder->options.target_height = wanted->target_height;
    memcpy(decoder->options.shown, wanted->shown, sizeof wanted->shown);
    memset(decoder->decoded, 0, sizeof decoder->decoded);
    return SUCCESS;
}

// The index of the picture is the third number of CUVIDPICPARAMS.
int cuvidDecodePicture(Decoder* decoder, const int* picture) {
    ENTER
    const int index = picture[2];
    if (index < 0 || (unsigned long)index >= decoder->options.decode_surfaces) return INVALID_VALUE;
    decoder->decoded[index] = 1;
    decoder->timestamp[index] = current;
    decoder->spoiled[index] = current_spoiled;
    return SUCCESS;
}

int cuvidGetDecodeStatus(const Decoder* decoder, int index, DecodeStatus* status) {
    ENTER
    if (index < 0 || (unsigned long)index >= decoder->options.decode_surfaces || !decoder->decoded[index]) {
        return INVALID_VALUE;
    }
    status->status = frame_at(decoder->timestamp[index]) == video.damaged ? DAMAGED : GOOD;
    return SUCCESS;
}

// Writes a sample of the table. A surface of 8 bits has the upper ones.
static void put(const Fill* job, const unsigned char* plane, long from, unsigned row, unsigned column) {
    const unsigned char* const sample = plane + from * video.sample_bytes;
    const unsigned char upper = job->spoiled ? GRAY : sample[video.sample_bytes - 1];
    if (job->options.surface == 0) {
        job->to[row * job->pitch + column] = upper;
        return;
    }
    job->to[row * job->pitch + 2 * column] = job->spoiled ? GRAY : sample[0];
    job->to[row * job->pitch + 2 * column + 1] = upper;
}

// Cuts and scales to the nearest sample.
static void fill(void* given, const unsigned* grid, const unsigned* block) {
    (void)grid;
    (void)block;
    const Fill* const job = given;
    const Options* const options = &job->options;
    const long width = options->shown[2] - options->shown[0], height = options->shown[3] - options->shown[1];
    const unsigned to_width = (unsigned)options->target_width, to_height = (unsigned)options->target_height;
    const size_t frame_bytes = (size_t)(video.width * video.height * 3 / 2 * video.sample_bytes);
    const unsigned char* const luma = video.frames + (size_t)job->frame * frame_bytes;
    const unsigned char* const chroma = luma + video.width * video.height * video.sample_bytes;
    for (unsigned y = 0; y < to_height; ++y) {
        const long row = options->shown[1] + (long)y * height / (long)to_height;
        for (unsigned x = 0; x < to_width; ++x) {
            put(job, luma, row * video.width + options->shown[0] + (long)x * width / (long)to_width, y, x);
        }
    }
    for (unsigned y = 0; y < to_height / 2; ++y) {
        const long row = options->shown[1] / 2 + (long)y * height / (long)to_height;
        for (unsigned x = 0; x < to_width; ++x) {
            const long pair = options->shown[0] / 2 + (long)(x / 2) * width / (long)to_width;
            put(job, chroma, row * video.width + 2 * pair + x % 2, to_height + y, x);
        }
    }
}

int cuvidMapVideoFrame64(Decoder* decoder, int index, unsigned long long* address, unsigned* pitch,
                         const Postprocessing* options) {
    ENTER
    if (index < 0 || (unsigned long)index >= decoder->options.decode_surfaces || !decoder->decoded[index] ||
        decoder->mapped >= decoder->options.output_surfaces) {
        return INVALID_VALUE;
    }
    const int frame = frame_at(decoder->timestamp[index]);
    if (frame == video.count) return UNKNOWN;
    *pitch = (unsigned)(decoder->options.target_width * (decoder->options.surface == 0 ? 1 : 2) + 511) / 512 * 512;
    // A header in front says how much there is.
    const size_t size = *pitch * decoder->options.target_height * 3 / 2;
    unsigned char* const memory = malloc(size + 64);
    memcpy(memory, &size, sizeof size);
    memset(memory + 64, 0xEE, size);
    *address = (unsigned long long)(uintptr_t)(memory + 64);
    const Fill job = {memory + 64, *pitch, frame, decoder->spoiled[index], decoder->options};
    fake_enqueue(options->stream, fill, &job, sizeof job);
    ++decoder->mapped;
    count(&mapped_frames, 1);
    return SUCCESS;
}

int cuvidUnmapVideoFrame64(Decoder* decoder, unsigned long long address) {
    ENTER_TO_END
    unsigned char* const memory = (unsigned char*)(uintptr_t)address;
    size_t size = 0;
    memcpy(&size, memory - 64, sizeof size);
    memset(memory, 0xCD, size);  // Whoever still copies it gets this; it is not freed, so that nothing worse happens.
    --decoder->mapped;
    count(&mapped_frames, -1);
    return entered;
}

int cuvidCreateVideoParser(Parser** parser, const ParserOptions* options) {
    ENTER
    if (options->on_sequence == NULL || options->on_decode == NULL || options->on_show == NULL) return INVALID_VALUE;
    *parser = calloc(1, sizeof **parser);
    (*parser)->options = *options;
    count(&parsers, 1);
    return SUCCESS;
}

int cuvidDestroyVideoParser(Parser* parser) {
    ENTER_TO_END
    free(parser);
    count(&parsers, -1);
    return entered;
}

static int show_until(Parser* parser, int left) {
    while (parser->waiting > left) {
        int first = 0;
        for (int i = 1; i < parser->waiting; ++i) {
            first = parser->pictures[i].timestamp < parser->pictures[first].timestamp ? i : first;
        }
        Shown shown = parser->pictures[first];
        parser->pictures[first] = parser->pictures[--parser->waiting];
        if (!parser->options.on_show(parser->options.user, &shown)) return UNKNOWN;
        parser->used[shown.index] = 0;
    }
    return SUCCESS;
}

static int begin_sequence(Parser* parser) {
    Format format = {
        .codec = parser->options.codec,
        .rate_numerator = 25,
        .rate_denominator = 1,
        .progressive = 1,
        .luma_bits_above_8 = (unsigned char)(video.bits - 8),
        .chroma_bits_above_8 = (unsigned char)(video.bits - 8),
        .least_decode_surfaces = (unsigned char)(video.reorder + 2),
        // Macroblocks are coded whole.
        .coded_width = (unsigned)(video.width + 15) / 16 * 16,
        .coded_height = (unsigned)(video.height + 15) / 16 * 16,
        .right = video.shown_width,
        .bottom = video.shown_height,
        .chroma = video.chroma,
        .signal = (unsigned char)(5 | video.full_range << 3),
        .matrix = (unsigned char)video.matrix,
    };
    parser->surfaces = parser->options.on_sequence(parser->options.user, &format);
    if (parser->surfaces == 1) parser->surfaces = (int)parser->options.max_decode_surfaces;
    return parser->surfaces == 0 ? UNKNOWN : SUCCESS;
}

// A stream begins with the header of its sequence, which containers keep apart.
static void check_header(int codec, const Packet* packet) {
    for (unsigned long i = 0; i + 3 < packet->size; ++i) {
        const unsigned char* const at = packet->data + i;
        if (at[0] == 0 && at[1] == 0 && at[2] == 1 && (codec == H264 ? (at[3] & 31) == 7 : (at[3] >> 1 & 63) == 33)) {
            return;
        }
    }
    fake_mistake();
}

int cuvidParseVideoData(Parser* parser, const Packet* packet) {
    ENTER
    if (packet->size > 0) {
        const int codec = parser->options.codec;
        const int in_stream = packet->size > 3 && packet->data[0] == 0 && packet->data[1] == 0 &&
                              (packet->data[2] == 1 || (packet->data[2] == 0 && packet->data[3] == 1));
        if (((codec == H264 || codec == HEVC) && !in_stream) || !(packet->flags & HAS_TIMESTAMP)) fake_mistake();
        if (parser->surfaces == 0 && (codec == H264 || codec == HEVC)) check_header(codec, packet);
        if (parser->surfaces == 0 && begin_sequence(parser) != SUCCESS) return UNKNOWN;
        int index = 0;
        while (index < parser->surfaces && parser->used[index]) ++index;
        if (index == parser->surfaces) {
            fake_mistake();
            return UNKNOWN;
        }
        int picture[1100] = {0};
        picture[2] = index;
        current = packet->timestamp;
        const int frame = frame_at(current);
        if (!parser->has_key && frame < video.count && video.keys[frame]) {
            parser->has_key = 1;
            parser->first_key = current;
        }
        current_spoiled = !parser->has_key || current < parser->first_key;
        parser->used[index] = 1;
        if (!parser->options.on_decode(parser->options.user, picture)) return UNKNOWN;
        parser->pictures[parser->waiting++] = (Shown){index, 1, 0, 0, packet->timestamp};
        if (show_until(parser, video.reorder) != SUCCESS) return UNKNOWN;
    }
    return packet->flags & END_OF_STREAM ? show_until(parser, 0) : SUCCESS;
}
