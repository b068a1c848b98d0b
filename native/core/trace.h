#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/non_copyable.h"

namespace spdl::trace {

// The trace of this process: when it is on, spans and counters of all threads are kept as numbers, the latest that fit
// into the memory that was asked for. Python makes a file of them. No call touches Python, so a thread may make one
// with or without the GIL.

// The number of the trace that is on, from 1; 0 if none is.
inline std::atomic<std::uint64_t> current{0};

inline bool is_on() {
    return current.load(std::memory_order_relaxed) != 0;
}

// A recording is a row of these. The head of a beginning is followed by the bytes of its name, and the head of a
// counter's value by its 8 bytes. An end closes the latest open span of its row.
enum class Kind : std::uint16_t { kBegin, kEnd, kInteger, kFloat };
struct Head {
    // Nanoseconds, on the clock that counts while the machine sleeps, if it exists.
    std::uint64_t time;
    // The number of a thread's row, or of a counter.
    std::uint32_t of;
    Kind kind;
    // How many bytes follow.
    std::uint16_t size;
};

// A thread that spans are of. Ids of threads that have ended are used again by the system, but not rows.
struct Thread {
    std::uint32_t row;
    std::int64_t id;
    std::string name;
};

struct Recorded {
    std::vector<Thread> threads;
    // The records, the older ones first.
    std::vector<char> older;
    std::vector<char> newer;
    // Whether there were more.
    bool lost;
};

// Begins a trace that keeps that many bytes. Returns its number, or 0 if one is on already.
std::uint64_t start(std::size_t bytes);

// Ends that trace, and returns what was recorded; nothing if it has ended.
std::optional<Recorded> stop(std::uint64_t number);

// Forgets the trace, which belongs to the process that this one was forked from.
void forget();

// The first span of a thread in a trace announces it with the name that the system has for it. Threads that have a
// better one say so first.
bool thread_is_named();
void name_thread(std::string_view name);

// Begins a span of this thread. Returns what end() wants: the trace's number, or 0 if none is on.
std::uint64_t begin(std::string_view name);
void end(std::uint64_t number);

void count(std::uint32_t counter, std::variant<std::int64_t, double> value);

// A span as long as the object lives. Costs one look at an integer if no trace is on.
class Span : NonCopyable {
  public:
    explicit Span(std::string_view name) : number_(is_on() ? begin(name) : 0) {}
    ~Span() {
        if (number_ != 0) {
            end(number_);
        }
    }

  private:
    std::uint64_t number_;
};

}  // namespace spdl::trace
