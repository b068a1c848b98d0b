#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/buffer.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "core/parallel.h"
#include "core/trace.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {

// It costs less to return fewer bytes than this to the system than to hand over the GIL.
inline constexpr std::size_t kLargeBytes = 1 << 20;

// Releases the GIL for its lifetime. If a daemon thread asks for it back while the interpreter shuts down, it sleeps,
// as ended_threads.cpp explains.
class ReleasedGil : NonCopyable {
  public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ~ReleasedGil() { PyEval_RestoreThread(state_); }

  private:
    PyThreadState* state_;
};

// Owns what a function of Python's has made. Throws Python's error if it made nothing.
inline nanobind::object made_by_python(PyObject* made) {
    if (made == nullptr) {
        throw nanobind::python_error();
    }
    return nanobind::steal(made);
}

// A lock that tells when the thread that has it asks for it again: a file of Python's, or a signal handler that runs
// while one is read, may use the object that is reading it.
class OwnedMutex {
  public:
    void lock() {
        if (owner_ == std::this_thread::get_id()) {
            throw MediaError("it was used from within the read() or write() of its own file, or by a signal handler");
        }
        mutex_.lock();
        owner_ = std::this_thread::get_id();
    }

    void unlock() {
        owner_ = std::thread::id();
        mutex_.unlock();
    }

  private:
    std::mutex mutex_;
    std::atomic<std::thread::id> owner_;
};

// A Python object that keeps memory alive for the arrays that show it.
inline nanobind::object own_memory(std::unique_ptr<AlignedBuffer> memory) {
    nanobind::object owner = made_by_python(PyCapsule_New(memory.get(), nullptr, [](PyObject* capsule) {
        auto* const held = static_cast<AlignedBuffer*>(PyCapsule_GetPointer(capsule, nullptr));
        if (held->size() < kLargeBytes) {
            delete held;
            return;
        }
        const ReleasedGil released;
        delete held;
    }));
    static_cast<void>(memory.release());
    return owner;
}

// The content of a Python object until a function consumes it, which then has it to itself. The lock serves builds
// without the GIL, where two threads may ask for the same object at once.
//
// T::bytes() is how much memory T::free() returns to the system. free() runs without the GIL, so it must not touch
// Python objects; the rest of T is destroyed with the GIL held.
template <typename T>
class Consumable {
  public:
    explicit Consumable(T held) : held_(std::move(held)) {}

    // Only for handing a new one to Python: `other` is not shared yet.
    Consumable(Consumable&& other) noexcept : held_(std::exchange(other.held_, std::nullopt)) {}
    Consumable(const Consumable&) = delete;
    Consumable& operator=(const Consumable&) = delete;
    Consumable& operator=(Consumable&&) = delete;
    ~Consumable() {
        if (held_ && held_->bytes() >= kLargeBytes) {
            const ReleasedGil released;
            held_->free();
        }
    }

    // Returns the result of `look` on the content; nothing if it was consumed. `look` must not touch Python: a thread
    // that waits for the lock would keep others from collecting garbage.
    template <typename Look>
    auto find(const Look& look) const -> std::optional<std::invoke_result_t<Look, const T&>> {
        const std::scoped_lock lock(mutex_);
        if (!held_) {
            return std::nullopt;
        }
        return look(*held_);
    }

    // Returns the result of `look`, but raises TypeError if the object was consumed. T::kConsumed says by what, and
    // what to do.
    template <typename Look>
    auto read(const Look& look) const {
        return checked(find(look));
    }

    T take() {
        const std::scoped_lock lock(mutex_);
        return checked(std::exchange(held_, std::nullopt));
    }

  private:
    template <typename Found>
    static Found checked(std::optional<Found> found) {
        if (!found) {
            throw nanobind::type_error(T::kConsumed);
        }
        return *std::move(found);
    }

    mutable std::mutex mutex_;
    std::optional<T> held_;
};

// Hands the waiting lines of FFmpeg's log to Python's logging. Wants the GIL.
void deliver_log_lines_now() noexcept;

inline void deliver_log_lines() noexcept {
    if (log_lines_wait.load(std::memory_order_relaxed)) {
        deliver_log_lines_now();
    }
}

// Returns whether Python runs signal handlers in this thread, which it does in the process's first.
bool runs_signal_handlers();

void bind_trace(nanobind::module_& module);

// Gives this thread its name in Python, if a trace is on that does not know it yet. Wants the GIL.
void name_this_thread() noexcept;

// The part of a Python call that works without the GIL. It is a span of the trace, if one is on, and so is the time
// that it then waits for the GIL. What FFmpeg has logged in the meantime goes to Python's logging. On the main thread,
// work that calls check_interrupt() ends on Ctrl-C. Not for finalisers, which may run in the middle of anything: these
// use ReleasedGil.
class NativeCall : NonCopyable {
  public:
    explicit NativeCall(const char* name)
        : watches_(runs_signal_handlers()), span_(trace::is_on() ? begin_span(name) : 0), state_(PyEval_SaveThread()) {}
    ~NativeCall() {
        if (span_ == 0) {
            PyEval_RestoreThread(state_);
        } else {
            trace::end(span_);
            const trace::Span waiting("wait for the GIL");
            PyEval_RestoreThread(state_);
        }
        deliver_log_lines();
    }

  private:
    static std::uint64_t begin_span(const char* name) {
        name_this_thread();
        return trace::begin(name);
    }

    WatchesSignals watches_;
    std::uint64_t span_;
    PyThreadState* state_;
};

}  // namespace spdl
