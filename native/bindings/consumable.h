#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "bindings/gil.h"

namespace spdl {

// The content of a Python object until a function consumes it, which then has it to itself. The lock serves builds
// without the GIL, where two threads may ask for the same object at once.
//
// T::bytes() is how much memory T::free() returns to the system. free() runs without the GIL, so it must not touch
// Python objects; the rest of T is destroyed with the GIL held.
template <typename T>
class Consumable {
  public:
    explicit Consumable(T held) : held_(std::move(held)) {}

    // Only for handing a new one to Python: nobody else can see `other` yet.
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
