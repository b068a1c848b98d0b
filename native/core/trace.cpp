#include "core/trace.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace spdl::trace {
namespace {

// Python reads it so.
static_assert(sizeof(Head) == 16);

// Longer names are cut.
constexpr std::size_t kLongestName = 512;

struct Self {
    std::uint32_t row = 0;
    std::int64_t id = 0;
    // Its place among the threads of the trace in which it was announced last.
    std::size_t place = 0;
    // The traces in which it was announced, and announced under its own name.
    std::uint64_t announced = 0;
    std::uint64_t named = 0;
};

std::atomic<std::uint32_t> next_row{1};
thread_local Self self;

std::int64_t thread_id() {
#ifdef __linux__
    return syscall(SYS_gettid);
#else
    std::uint64_t id = 0;
    pthread_threadid_np(nullptr, &id);
    return static_cast<std::int64_t>(id);
#endif
}

std::uint64_t now() {
#ifdef CLOCK_BOOTTIME
    constexpr clockid_t clock = CLOCK_BOOTTIME;
#else
    constexpr clockid_t clock = CLOCK_MONOTONIC;
#endif
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Returns as much of a name as fits, and no part of a character.
std::string_view cut(std::string_view name) {
    if (name.size() <= kLongestName) {
        return name;
    }
    std::size_t size = kLongestName;
    while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) {
        --size;
    }
    return name.substr(0, size);
}

// The latest records: when the newer half of the memory is full, it becomes the older half, whose content is dropped.
class Records {
  public:
    Records() = default;

    explicit Records(std::size_t bytes) : room_(std::max(bytes / 2, sizeof(Head) + kLongestName)) {
        // Nothing is allocated later, when a lack of memory could not be reported.
        content_.older.reserve(room_);
        content_.newer.reserve(room_);
    }

    void add(std::uint32_t of, Kind kind, std::uint64_t time, std::string_view more) {
        if (content_.newer.size() + sizeof(Head) + more.size() > room_) {
            content_.lost = content_.lost || !content_.older.empty();
            content_.older.swap(content_.newer);
            content_.newer.clear();
        }
        const Head head{time, of, kind, static_cast<std::uint16_t>(more.size())};
        const auto* const bytes = reinterpret_cast<const char*>(&head);
        content_.newer.insert(content_.newer.end(), bytes, bytes + sizeof(head));
        content_.newer.insert(content_.newer.end(), more.begin(), more.end());
    }

    std::vector<Thread>& threads() { return content_.threads; }

    Recorded take() { return std::exchange(content_, {}); }

  private:
    std::size_t room_ = 0;
    Recorded content_{};
};

// Never destroyed: threads may be at work while the process ends.
std::mutex& mutex = *new std::mutex;
Records& records = *new Records;
std::uint64_t last_number = 0;

// Notes who this thread is. Wants the lock.
void announce(std::uint64_t number, std::string_view name) {
    if (self.row == 0) {
        self.row = next_row.fetch_add(1, std::memory_order_relaxed);
        self.id = thread_id();
    }
    std::vector<Thread>& threads = records.threads();
    if (self.announced == number) {
        threads[self.place].name = cut(name);
    } else {
        self.place = threads.size();
        threads.push_back({self.row, self.id, std::string(cut(name))});
    }
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

std::uint64_t start(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    if (is_on()) {
        return 0;
    }
    records = Records(bytes);
    current.store(++last_number, std::memory_order_relaxed);
    return last_number;
}

std::optional<Recorded> stop(std::uint64_t number) {
    std::optional<Recorded> taken;
    recorded(number, [&](std::uint64_t) {
        current.store(0, std::memory_order_relaxed);
        taken = records.take();
    });
    return taken;
}

void forget() {
    // Another thread may have held the lock when this process began without it.
    new (&mutex) std::mutex;
    new (&records) Records;
    current.store(0, std::memory_order_relaxed);
    // The one thread that is left has another id here.
    self = Self();
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
    const std::uint64_t time = now();
    return recorded(0, [&](std::uint64_t number) {
        if (self.announced != number) {
            announce_by_system_name(number);
        }
        records.add(self.row, Kind::kBegin, time, cut(name));
    });
}

void end(std::uint64_t number) {
    const std::uint64_t time = now();
    recorded(number, [&](std::uint64_t) { records.add(self.row, Kind::kEnd, time, ""); });
}

void count(std::uint32_t counter, std::variant<std::int64_t, double> value) {
    const std::uint64_t time = now();
    const Kind kind = std::holds_alternative<double>(value) ? Kind::kFloat : Kind::kInteger;
    std::visit(
        [&](const auto& number) {
            const std::string_view bytes(reinterpret_cast<const char*>(&number), sizeof(number));
            recorded(0, [&](std::uint64_t) { records.add(counter, kind, time, bytes); });
        },
        value);
}

}  // namespace spdl::trace
