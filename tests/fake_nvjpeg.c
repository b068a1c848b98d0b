// A stand-in for nvJPEG over the fake driver: a function of the tests decodes, and the planes are written when the stream
// gets there. It counts what is created and never destroyed, and checks what real decoders do not.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void fake_enqueue(void* stream, void (*work)(void*, const unsigned*, const unsigned*), const void* given, size_t size);
int fake_enter(const char* name);
void fake_mistake(void);
int fake_in_context(void);

enum { SUCCESS = 0, INVALID_PARAMETER = 2, BAD_JPEG = 3, ARCHITECTURE_MISMATCH = 7 };
enum { HARDWARE = 3, PLANES = 3 };

typedef struct {
    unsigned char* plane[4];
    size_t pitch[4];
} Image;

// What the tests decode: planes without gaps. They are kept until the next call.
typedef struct {
    int count;
    int width[PLANES], height[PLANES];
    const unsigned char* plane[PLANES];
} Decoded;

typedef int (*Decode)(const unsigned char* data, size_t length, Decoded* decoded);

typedef struct {
    int backend;
} Handle;

typedef struct {
    int images;
} State;

typedef struct {
    size_t length;
} Header;

typedef struct {
    unsigned char* to;
    size_t pitch;
    unsigned char* from;
    int width, height;
} Write;

static Decode decode;
static int has_hardware = 1;
static size_t hardware_takes = (size_t)-1;  // Bytes of a JPEG.
static long alive;

void fake_jpeg_set(Decode function, int hardware, size_t takes) {
    decode = function;
    has_hardware = hardware;
    hardware_takes = takes;
}

long fake_jpeg_alive(void) { return alive; }

#define ENTER                                     \
    if (!fake_in_context()) fake_mistake();       \
    const int entered = fake_enter(__func__);     \
    if (entered != 0) return entered;

int nvjpegGetProperty(int type, int* value) {
    *value = type == 0 ? 12 : type;
    return SUCCESS;
}

static int create(size_t size, void** object) {
    *object = calloc(1, size);
    __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}

static int destroy(void* object) {
    __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    free(object);
    return SUCCESS;
}

int nvjpegCreateEx(int backend, void* device_allocator, void* pinned_allocator, unsigned flags, Handle** handle) {
    ENTER
    if (device_allocator != NULL || pinned_allocator != NULL || flags != 0) return INVALID_PARAMETER;
    if (backend == HARDWARE && !has_hardware) return ARCHITECTURE_MISMATCH;
    create(sizeof **handle, (void**)handle);
    (*handle)->backend = backend;
    return SUCCESS;
}

int nvjpegDestroy(Handle* handle) { return destroy(handle); }

int nvjpegJpegStateCreate(Handle* handle, State** state) {
    ENTER
    return handle == NULL ? INVALID_PARAMETER : create(sizeof **state, (void**)state);
}

int nvjpegJpegStateDestroy(State* state) { return destroy(state); }

int nvjpegJpegStreamCreate(Handle* handle, Header** header) {
    ENTER
    return handle == NULL ? INVALID_PARAMETER : create(sizeof **header, (void**)header);
}

int nvjpegJpegStreamDestroy(Header* header) { return destroy(header); }

int nvjpegJpegStreamParseHeader(Handle* handle, const unsigned char* data, size_t length, Header* header) {
    ENTER
    header->length = length;
    return handle == NULL || data[0] != 0xff ? BAD_JPEG : SUCCESS;
}

int nvjpegDecodeBatchedSupported(Handle* handle, const Header* header, int* unsupported) {
    ENTER
    *unsupported = handle->backend == HARDWARE && header->length > hardware_takes;
    return SUCCESS;
}

int nvjpegDecodeBatchedInitialize(Handle* handle, State* state, int images, int threads, int format) {
    ENTER
    if (handle == NULL || images < 1 || threads < 1 || format != 0) return INVALID_PARAMETER;
    state->images = images;
    return SUCCESS;
}

static void write_plane(void* given, const unsigned* grid, const unsigned* block) {
    (void)grid;
    (void)block;
    const Write* const job = given;
    for (int row = 0; row < job->height; ++row) {
        memcpy(job->to + (size_t)row * job->pitch, job->from + (size_t)row * (size_t)job->width, (size_t)job->width);
    }
    free(job->from);
}

int nvjpegDecodeBatched(Handle* handle, State* state, const unsigned char* const* data, const size_t* lengths, Image* images,
                        void* stream) {
    ENTER
    fake_enter(handle->backend == HARDWARE ? "hardware batches" : "hybrid batches");
    for (int i = 0; i < state->images; ++i) {
        Decoded decoded = {0};
        fake_enter(handle->backend == HARDWARE ? "hardware images" : "hybrid images");
        if (decode(data[i], lengths[i], &decoded) != 0) return BAD_JPEG;
        for (int p = 0; p < decoded.count; ++p) {
            const size_t size = (size_t)decoded.width[p] * (size_t)decoded.height[p];
            if (images[i].plane[p] == NULL || images[i].pitch[p] < (size_t)decoded.width[p]) return INVALID_PARAMETER;
            const Write job = {images[i].plane[p], images[i].pitch[p], malloc(size), decoded.width[p], decoded.height[p]};
            memcpy(job.from, decoded.plane[p], size);
            fake_enqueue(stream, write_plane, &job, sizeof job);
        }
    }
    return SUCCESS;
}
