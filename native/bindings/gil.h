#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/buffer.h"
#include "core/errors.h"

namespace spdl {

// It costs less to return fewer bytes than this to the system than to hand over the GIL.
inline constexpr std::size_t kLargeBytes = 1 << 20;

// Releases the GIL for its lifetime. If a daemon thread asks for it back while the interpreter shuts down, it sleeps,
// as ended_threads.cpp explains.
class ReleasedGil {
  public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;
    ~ReleasedGil() { PyEval_RestoreThread(state_); }

  private:
    PyThreadState* state_;
};

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
    nanobind::object owner = nanobind::steal(PyCapsule_New(memory.get(), nullptr, [](PyObject* capsule) {
        auto* const held = static_cast<AlignedBuffer*>(PyCapsule_GetPointer(capsule, nullptr));
        if (held->size() < kLargeBytes) {
            delete held;
            return;
        }
        const ReleasedGil released;
        delete held;
    }));
    if (!owner.is_valid()) {
        throw nanobind::python_error();
    }
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

}  // namespace spdl
