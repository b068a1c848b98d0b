#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace spdl::trace {

// The trace of this process: when it is on, spans and counters of all threads go into one file, as Perfetto's packets.
// Memory is bounded: what was recorded is written whenever the buffer is full, by the thread that found it so. No call
// touches Python, so a thread may make one with or without the GIL.

// The number of the trace that is on, from 1; 0 if none is.
inline std::atomic<std::uint64_t> current{0};

inline bool is_on() {
    return current.load(std::memory_order_relaxed) != 0;
}

// Begins a trace in the open file. Returns its number, or 0 if one is on already.
std::uint64_t start(int descriptor, std::size_t buffer_bytes, std::string_view process_name);

// Ends that trace, unless it has ended. Returns the errno of the write that has failed, or 0.
int stop(std::uint64_t number);

// Forgets the trace, which belongs to the process that this one was forked from.
void forget();

// The first span of a thread in a trace announces it with the name that the system has for it. Threads that have a
// better one say so first.
bool thread_is_named();
void name_thread(std::string_view name);

// Begins a span of this thread. Returns what end() wants: the trace's number, or 0 if none is on.
std::uint64_t begin(std::string_view name);
void end(std::uint64_t number);

inline constexpr int kCounters = 8;
void count(int counter, std::variant<std::int64_t, double> value);

// A span as long as the object lives. Costs one look at an integer if no trace is on.
class Span {
  public:
    explicit Span(std::string_view name) : number_(is_on() ? begin(name) : 0) {}
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
        if (number_ != 0) {
            end(number_);
        }
    }

  private:
    std::uint64_t number_;
};

}  // namespace spdl::trace
