#include "core/trace.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "core/perfetto_packets.h"

namespace spdl::trace {
namespace {

// Tracks are numbered: the process, the counters, the threads.
constexpr std::uint64_t kProcessTrack = 1;
constexpr std::uint64_t kFirstCounter = 2;
constexpr std::uint64_t kFirstThread = kFirstCounter + kCounters;

struct Thread {
    // Ids of threads that have ended are used again by the system, but not these.
    std::uint64_t track = 0;
    std::int64_t id = 0;
    // The traces in which it was announced, and announced under its own name.
    std::uint64_t announced = 0;
    std::uint64_t named = 0;
};

std::atomic<std::uint64_t> next_track{kFirstThread};
thread_local Thread self;

std::int64_t thread_id() {
#ifdef __linux__
    return syscall(SYS_gettid);
#else
    std::uint64_t id = 0;
    pthread_threadid_np(nullptr, &id);
    return static_cast<std::int64_t>(id);
#endif
}

class Writer {
  public:
    void open(int descriptor, std::size_t bytes) {
        descriptor_ = descriptor;
        room_ = std::max(bytes, sizeof(perfetto::Packet));
        buffer_.clear();
        buffer_.reserve(room_);
        error_ = 0;
        announced_.fill(false);
    }

    void add(const perfetto::Packet& packet) {
        const std::string_view bytes = packet.bytes();
        if (buffer_.size() + bytes.size() > room_) {
            flush();
        }
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }

    // Ends with an error if the file takes no more: what comes then is lost, and the trace says so when it stops.
    void flush() {
        const char* from = buffer_.data();
        std::size_t left = error_ == 0 ? buffer_.size() : 0;
        while (left > 0) {
            const ssize_t written = ::write(descriptor_, from, left);
            if (written < 0 && errno == EINTR) {
                continue;
            }
            if (written < 0) {
                error_ = errno;
                break;
            }
            from += written;
            left -= static_cast<std::size_t>(written);
        }
        buffer_.clear();
    }

    int close() {
        flush();
        std::vector<char>().swap(buffer_);
        return error_;
    }

    void announce_counter(int counter) {
        bool& announced = announced_[static_cast<std::size_t>(counter)];
        if (!announced) {
            add(perfetto::counter(kFirstCounter + static_cast<std::uint64_t>(counter), kProcessTrack,
                                  "counter " + std::to_string(counter)));
            announced = true;
        }
    }

  private:
    int descriptor_ = -1;
    int error_ = 0;
    std::size_t room_ = 0;
    std::vector<char> buffer_;
    std::array<bool, kCounters> announced_{};
};

// Never destroyed: threads may be at work while the process ends.
std::mutex& mutex = *new std::mutex;
Writer& writer = *new Writer;
std::uint64_t last_number = 0;

// Writes who this thread is. Wants the lock.
void announce(std::uint64_t number, std::string_view name) {
    if (self.track == 0) {
        self.track = next_track.fetch_add(1, std::memory_order_relaxed);
        self.id = thread_id();
    }
    writer.add(perfetto::thread(self.track, getpid(), self.id, name));
    self.announced = number;
}

void announce_by_system_name(std::uint64_t number) {
    char name[64] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    announce(number, name);
}

// Calls `work` under the lock if the trace is on, and is that one: number 0 stands for any. Returns its number.
template <typename Work>
std::uint64_t recorded(std::uint64_t wanted, const Work& work) {
    const std::scoped_lock lock(mutex);
    const std::uint64_t number = current.load(std::memory_order_relaxed);
    if (number == 0 || (wanted != 0 && number != wanted)) {
        return 0;
    }
    work(number);
    return number;
}

}  // namespace

std::uint64_t start(int descriptor, std::size_t buffer_bytes, std::string_view process_name) {
    const std::scoped_lock lock(mutex);
    if (is_on()) {
        return 0;
    }
    writer.open(descriptor, buffer_bytes);
    writer.add(perfetto::clocks());
    writer.add(perfetto::process(kProcessTrack, getpid(), process_name));
    current.store(++last_number, std::memory_order_relaxed);
    return last_number;
}

int stop(std::uint64_t number) {
    int error = 0;
    recorded(number, [&](std::uint64_t) {
        current.store(0, std::memory_order_relaxed);
        error = writer.close();
    });
    return error;
}

void forget() {
    // Another thread may have held the lock when this process began without it.
    new (&mutex) std::mutex;
    new (&writer) Writer;
    current.store(0, std::memory_order_relaxed);
    // The one thread that is left has another id here.
    self = Thread();
}

bool thread_is_named() {
    return self.named == current.load(std::memory_order_relaxed);
}

void name_thread(std::string_view name) {
    recorded(0, [&](std::uint64_t number) {
        announce(number, name);
        self.named = number;
    });
}

std::uint64_t begin(std::string_view name) {
    const std::uint64_t time = perfetto::now();
    return recorded(0, [&](std::uint64_t number) {
        if (self.announced != number) {
            announce_by_system_name(number);
        }
        writer.add(perfetto::begin(time, self.track, name));
    });
}

void end(std::uint64_t number) {
    const std::uint64_t time = perfetto::now();
    recorded(number, [&](std::uint64_t) { writer.add(perfetto::end(time, self.track)); });
}

void count(int counter, std::variant<std::int64_t, double> value) {
    const std::uint64_t time = perfetto::now();
    recorded(0, [&](std::uint64_t) {
        writer.announce_counter(counter);
        writer.add(perfetto::value(time, kFirstCounter + static_cast<std::uint64_t>(counter), value));
    });
}

}  // namespace spdl::trace
