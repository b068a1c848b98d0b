// A stand-in for libcuda.so.1 on machines without a GPU: the calls that spdl.io makes, over main memory.
// Kernels are run too: a module is the name of a shared library, in which each kernel NAME has a function NAME_run that
// runs all its threads over a copy of its arguments, and the size of these, NAME_bytes (see fake_nvrtc.c).
//
// It is as unkind as CUDA may be. Copies and kernels read and write nothing until somebody waits for them, at the end of the
// latency that is set, so that memory which is used again too early ends up in the wrong array. Calls without a context fail;
// copies from memory that is not pinned, events and memory that are given back twice or never are counted. Any call can
// be told to fail. There are no threads: waiting does the work.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Status;
typedef uint64_t DevicePointer;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum { MAX_DEVICES = 4, MAX_BLOCKS = 4096, MAX_EVENTS = 4096, MAX_COPIES = 4096, MAX_CALLS = 128, MAX_DEPTH = 16 };

typedef struct {
    char* memory;
    size_t size;
    int pinned;
} Block;

typedef struct {
    int used;
    unsigned long ticket;  // All copies up to this one on the stream, when it was recorded.
    void* stream;
} Event;

typedef struct {
    void* stream;
    unsigned long ticket;
    double due;
    char* to;
    const char* from;
    size_t size;
    size_t rows, to_pitch, from_pitch;  // 0 rows for a copy of bytes that lie together.
    // Other work, in place of a copy, on a copy of what it is given.
    void (*work)(void* given, const unsigned* grid, const unsigned* block);
    void* given;
    unsigned grid[3], block[3];
} Copy;

typedef struct {
    void (*run)(void* given, const unsigned* grid, const unsigned* block);
    size_t bytes;
} Function;

typedef struct {
    char name[40];
    long calls;
    long fail_at;  // The number of the call that fails, from 1; 0 for none.
    Status status;
} Call;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Block blocks[MAX_BLOCKS];
static Event events[MAX_EVENTS];
static Copy copies[MAX_COPIES];
static int copy_count;
static unsigned long last_ticket;
static Call calls[MAX_CALLS];
static int call_count;
static int device_count = 1, pools_supported = 1;
static int driver_version = 13000;
static double latency;
static int active[MAX_DEVICES];
static long mistakes;
static __thread void* contexts[MAX_DEPTH];
static __thread int depth;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// ---- what the tests set and read -------------------------------------------------------------------------------

static Call* find_call(const char* name) {
    for (int i = 0; i < call_count; ++i) {
        if (strcmp(calls[i].name, name) == 0) {
            return &calls[i];
        }
    }
    Call* const call = &calls[call_count++];
    snprintf(call->name, sizeof call->name, "%s", name);
    return call;
}

void fake_reset(void) {
    pthread_mutex_lock(&mutex);
    call_count = 0;
    memset(calls, 0, sizeof calls);
    latency = 0;
    mistakes = 0;
    device_count = 1;
    driver_version = 13000;
    pthread_mutex_unlock(&mutex);
}

void fake_set_latency(double seconds) { latency = seconds; }
void fake_set_devices(int count) { device_count = count; }
void fake_set_version(int version) { driver_version = version; }
void fake_set_pools(int supported) { pools_supported = supported; }

// The call of this name that comes after `after` others from now on returns `status`.
void fake_fail(const char* name, long after, Status status) {
    pthread_mutex_lock(&mutex);
    Call* const call = find_call(name);
    call->fail_at = call->calls + after + 1;
    call->status = status;
    pthread_mutex_unlock(&mutex);
}

long fake_calls(const char* name) {
    pthread_mutex_lock(&mutex);
    const long count = find_call(name)->calls;
    pthread_mutex_unlock(&mutex);
    return count;
}

void fake_forget_copies(void) {
    copy_count = 0;
    mistakes = 0;
}

int fake_active(int device) { return active[device]; }
long fake_mistakes(void) { return mistakes; }
int fake_copies_under_way(void) { return copy_count; }

long fake_blocks(int pinned) {
    long count = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAX_BLOCKS; ++i) {
        count += blocks[i].memory != NULL && blocks[i].pinned == pinned;
    }
    pthread_mutex_unlock(&mutex);
    return count;
}

long fake_events(void) {
    long count = 0;
    for (int i = 0; i < MAX_EVENTS; ++i) {
        count += events[i].used;
    }
    return count;
}

// ---- the machinery ---------------------------------------------------------------------------------------------

// Counts the call and tells whether it is to fail.
static Status enter(const char* name, int needs_context) {
    Call* const call = find_call(name);
    if (++call->calls == call->fail_at) {
        return call->status;
    }
    return needs_context && depth == 0 ? INVALID_CONTEXT : SUCCESS;
}

#define ENTER(needs_context)                                      \
    pthread_mutex_lock(&mutex);                                   \
    const Status entered = enter(__func__, needs_context);        \
    if (entered != SUCCESS) {                                     \
        pthread_mutex_unlock(&mutex);                             \
        return entered;                                           \
    }

// For calls that give something back: they do so although they fail, since what they report happened before.
#define ENTER_TO_END                                                          \
    pthread_mutex_lock(&mutex);                                               \
    const Status entered = enter(__func__, 1);                                \
    if (depth == 0) {                                                         \
        pthread_mutex_unlock(&mutex);                                         \
        return entered;                                                       \
    }

#define LEAVE_AT_END(status) return leave(entered != SUCCESS ? entered : (status));

// A device's primary context is the address of its flag; any other is somebody's own, on the last device.
static int device_of(const void* context) {
    int device = 0;
    while (device < device_count - 1 && context != &active[device]) {
        ++device;
    }
    return device;
}

static Status leave(Status status) {
    pthread_mutex_unlock(&mutex);
    return status;
}

static Status allocate(void** memory, size_t size, int pinned) {
    if (size == 0) {
        return INVALID_VALUE;
    }
    for (int i = 0; i < MAX_BLOCKS; ++i) {
        if (blocks[i].memory == NULL) {
            blocks[i] = (Block){malloc(size), size, pinned};
            memset(blocks[i].memory, 0xAB, size);
            *memory = blocks[i].memory;
            return SUCCESS;
        }
    }
    return OUT_OF_MEMORY;
}

static Status release(const void* memory, int pinned) {
    for (int i = 0; i < MAX_BLOCKS; ++i) {
        if (blocks[i].memory == memory && blocks[i].pinned == pinned && memory != NULL) {
            for (int j = 0; j < copy_count; ++j) {
                const char* const used = pinned ? copies[j].from : copies[j].to;
                mistakes += used != NULL && used >= blocks[i].memory && used < blocks[i].memory + blocks[i].size;
            }
            memset(blocks[i].memory, 0xCD, blocks[i].size);
            free(blocks[i].memory);
            blocks[i] = (Block){NULL, 0, 0};
            return SUCCESS;
        }
    }
    ++mistakes;
    return INVALID_VALUE;
}

static int within(const char* start, size_t size, int pinned) {
    for (int i = 0; i < MAX_BLOCKS; ++i) {
        if (blocks[i].memory != NULL && blocks[i].pinned == pinned && start >= blocks[i].memory &&
            start + size <= blocks[i].memory + blocks[i].size) {
            return 1;
        }
    }
    return 0;
}

static Status enqueue(Copy copy, void* stream) {
    if (copy_count == MAX_COPIES) {
        return OUT_OF_MEMORY;
    }
    copy.stream = stream;
    copy.ticket = ++last_ticket;
    copy.due = now() + latency;
    copies[copy_count++] = copy;
    return SUCCESS;
}

static Status enqueue_copy(char* to, const char* from, size_t size, int to_device, void* stream) {
    mistakes += !within(to_device ? from : to, size, 1);
    return enqueue((Copy){.to = to, .from = from, .size = size}, stream);
}

static void do_copy(const Copy* copy) {
    if (copy->work != NULL) {
        copy->work(copy->given, copy->grid, copy->block);
        free(copy->given);
        return;
    }
    if (copy->rows == 0) {
        memcpy(copy->to, copy->from, copy->size);
    }
    for (size_t row = 0; row < copy->rows; ++row) {
        memcpy(copy->to + row * copy->to_pitch, copy->from + row * copy->from_pitch, copy->size);
    }
}

// For the other libraries that stand in: they too work on a stream. What they put on the legacy default stream is done
// before later work on the default stream of a thread, so it goes there.
void fake_enqueue(void* stream, void (*work)(void*, const unsigned*, const unsigned*), const void* given, size_t size) {
    stream = stream == NULL ? (void*)2 : stream;
    pthread_mutex_lock(&mutex);
    void* const kept = malloc(size);
    memcpy(kept, given, size);
    enqueue((Copy){.work = work, .given = kept}, stream);
    pthread_mutex_unlock(&mutex);
}

void fake_mistake(void) {
    pthread_mutex_lock(&mutex);
    ++mistakes;
    pthread_mutex_unlock(&mutex);
}

// Counts a call of another library, and tells whether it is to fail.
int fake_enter(const char* name) {
    pthread_mutex_lock(&mutex);
    Call* const call = find_call(name);
    const int status = ++call->calls == call->fail_at ? call->status : SUCCESS;
    pthread_mutex_unlock(&mutex);
    return status;
}

// Returns whether a context is current on this thread.
int fake_in_context(void) { return depth > 0; }

// Does the copies of the stream up to the ticket, in order. The lock is free while it waits.
static void run_until(void* stream, unsigned long ticket) {
    for (;;) {
        int next = -1;
        for (int i = 0; i < copy_count && next < 0; ++i) {
            next = copies[i].stream == stream && copies[i].ticket <= ticket ? i : -1;
        }
        if (next < 0) {
            return;
        }
        const double left = copies[next].due - now();
        if (left > 0) {
            const struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
            pthread_mutex_unlock(&mutex);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&mutex);
            continue;
        }
        do_copy(&copies[next]);
        memmove(&copies[next], &copies[next + 1], (size_t)(copy_count - next - 1) * sizeof(Copy));
        --copy_count;
    }
}

// ---- the driver ------------------------------------------------------------------------------------------------

Status cuInit(unsigned flags) { ENTER(0) return leave(flags == 0 ? SUCCESS : INVALID_VALUE); }

Status cuGetErrorName(Status status, const char** name) {
    switch (status) {
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
        case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return SUCCESS;
        case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; return SUCCESS;
        case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
        default: *name = NULL; return INVALID_VALUE;
    }
}

Status cuGetErrorString(Status status, const char** text) {
    *text = status == OUT_OF_MEMORY ? "out of memory" : "what the driver says";
    return SUCCESS;
}

Status cuDeviceGetCount(int* count) {
    ENTER(0)
    *count = device_count;
    return leave(SUCCESS);
}

Status cuDriverGetVersion(int* version) {
    ENTER(0)
    *version = driver_version;
    return leave(SUCCESS);
}

Status cuDeviceGetName(char* name, int size, int device) {
    ENTER(0)
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return leave(device < device_count ? SUCCESS : INVALID_VALUE);
}

Status cuDeviceGetAttribute(int* value, int attribute, int device) {
    ENTER(0)
    switch (attribute) {
        case 75: *value = 9; break;
        case 76: *value = 0; break;
        default: *value = attribute == 115 && pools_supported;
    }
    return leave(device < device_count ? SUCCESS : INVALID_VALUE);
}

Status cuDevicePrimaryCtxRetain(void** context, int device) {
    ENTER(0)
    if (device < 0 || device >= device_count) {
        return leave(INVALID_VALUE);
    }
    active[device] = 1;
    *context = &active[device];
    return leave(SUCCESS);
}

Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
    ENTER(0)
    *flags = 0;
    *is_active = active[device];
    return leave(SUCCESS);
}

Status cuCtxGetDevice(int* device) {
    ENTER(1)
    *device = device_of(contexts[depth - 1]);
    return leave(SUCCESS);
}

Status cuCtxPushCurrent_v2(void* context) {
    ENTER(0)
    contexts[depth++] = context;
    return leave(SUCCESS);
}

Status cuCtxPopCurrent_v2(void** context) {
    ENTER_TO_END
    *context = contexts[--depth];
    LEAVE_AT_END(SUCCESS)
}

Status cuMemHostAlloc(void** memory, size_t size, unsigned flags) {
    ENTER(1)
    // It goes with its context, so that has to be one that stays.
    mistakes += contexts[depth - 1] != &active[device_of(contexts[depth - 1])];
    return leave(flags == 1 ? allocate(memory, size, 1) : INVALID_VALUE);
}

Status cuMemFreeHost(void* memory) { ENTER(1) return leave(release(memory, 1)); }

Status cuMemPoolCreate(void** pool, const int* properties) {
    ENTER(1)
    // Allocation type, handle types, location type, device.
    *pool = &pools_supported;
    return leave(properties[0] == 1 && properties[1] == 0 && properties[2] == 1 && properties[3] < device_count
                     ? SUCCESS
                     : INVALID_VALUE);
}

Status cuMemPoolSetAttribute(void* pool, int attribute, const void* value) {
    ENTER(1)
    return leave(pool == &pools_supported && attribute == 4 && value != NULL ? SUCCESS : INVALID_VALUE);
}

Status cuMemAllocFromPoolAsync(DevicePointer* memory, size_t size, void* pool, void* stream) {
    ENTER(1)
    (void)stream;
    void* block = NULL;
    const Status status = pool == &pools_supported ? allocate(&block, size, 0) : INVALID_VALUE;
    *memory = (DevicePointer)(uintptr_t)block;
    return leave(status);
}

Status cuMemFreeAsync(DevicePointer memory, void* stream) {
    ENTER_TO_END
    mistakes += stream != (void*)1;
    const Status status = release((void*)(uintptr_t)memory, 0);
    LEAVE_AT_END(status)
}

Status cuMemAlloc_v2(DevicePointer* memory, size_t size) {
    ENTER(1)
    void* block = NULL;
    const Status status = allocate(&block, size, 0);
    *memory = (DevicePointer)(uintptr_t)block;
    return leave(status);
}

Status cuMemFree_v2(DevicePointer memory) { ENTER(1) return leave(release((void*)(uintptr_t)memory, 0)); }

Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t size, void* stream) {
    ENTER(1)
    return leave(enqueue_copy((char*)(uintptr_t)to, from, size, 1, stream));
}

Status cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t size, void* stream) {
    ENTER(1)
    return leave(enqueue_copy(to, (const char*)(uintptr_t)from, size, 0, stream));
}

// CUDA_MEMCPY2D.
typedef struct {
    size_t from_x, from_y;
    int from_type;
    const void* from_host;
    DevicePointer from;
    void* from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_type;
    void* to_host;
    DevicePointer to;
    void* to_array;
    size_t to_pitch;
    size_t width, height;
} Copy2d;

Status cuMemcpy2DAsync_v2(const Copy2d* copy, void* stream) {
    ENTER(1)
    if (copy->from_type != 2 || copy->to_type != 2 || copy->width > copy->from_pitch || copy->width > copy->to_pitch ||
        copy->from_x != 0 || copy->from_y != 0 || copy->to_x != 0 || copy->to_y != 0) {
        return leave(INVALID_VALUE);
    }
    mistakes += !within((char*)(uintptr_t)copy->to, (copy->height - 1) * copy->to_pitch + copy->width, 0);
    return leave(enqueue((Copy){.to = (char*)(uintptr_t)copy->to,
                                .from = (const char*)(uintptr_t)copy->from,
                                .size = copy->width,
                                .rows = copy->height,
                                .to_pitch = copy->to_pitch,
                                .from_pitch = copy->from_pitch},
                         stream));
}

Status cuModuleLoadData(void** module, const void* image) {
    ENTER(1)
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    return leave(*module == NULL ? INVALID_IMAGE : SUCCESS);
}

Status cuModuleGetFunction(Function** function, void* module, const char* name) {
    ENTER(1)
    char symbol[100];
    snprintf(symbol, sizeof symbol, "%s_run", name);
    void* const run = dlsym(module, symbol);
    snprintf(symbol, sizeof symbol, "%s_bytes", name);
    const size_t* const bytes = dlsym(module, symbol);
    if (run == NULL || bytes == NULL) {
        return leave(NOT_FOUND);
    }
    *function = malloc(sizeof **function);  // As long as the process, like the module.
    (*function)->bytes = *bytes;
    memcpy(&(*function)->run, &run, sizeof run);
    return leave(SUCCESS);
}

Status cuLaunchKernel(const Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments, void** extra) {
    ENTER(1)
    const unsigned long threads = (unsigned long)block_x * block_y * block_z;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 || threads == 0 || threads > 1024 ||
        shared != 0 || extra != NULL) {
        return leave(INVALID_VALUE);
    }
    void* const given = malloc(function->bytes);
    memcpy(given, arguments[0], function->bytes);
    return leave(enqueue(
        (Copy){.work = function->run, .given = given, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}},
        stream));
}

Status cuEventCreate(void** event, unsigned flags) {
    ENTER(1)
    for (int i = 0; i < MAX_EVENTS; ++i) {
        if (!events[i].used) {
            events[i] = (Event){1, 0, NULL};
            *event = &events[i];
            return leave(flags == 3 ? SUCCESS : INVALID_VALUE);
        }
    }
    return leave(OUT_OF_MEMORY);
}

Status cuEventRecord(Event* event, void* stream) {
    ENTER(1)
    event->ticket = last_ticket;
    event->stream = stream;
    return leave(SUCCESS);
}

Status cuEventSynchronize(Event* event) {
    ENTER(1)
    run_until(event->stream, event->ticket);
    return leave(SUCCESS);
}

Status cuEventDestroy_v2(Event* event) {
    ENTER_TO_END
    mistakes += !event->used;
    event->used = 0;
    LEAVE_AT_END(SUCCESS)
}

// Ordering by doing: what the stream is to wait for is done now.
Status cuStreamWaitEvent(void* stream, const Event* event, unsigned flags) {
    ENTER(1)
    (void)stream;
    run_until(event->stream, event->ticket);
    return leave(flags == 0 ? SUCCESS : INVALID_VALUE);
}

Status cuStreamSynchronize(void* stream) {
    ENTER(1)
    run_until(stream, last_ticket);
    return leave(SUCCESS);
}
