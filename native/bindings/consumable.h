#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <utility>

#include "bindings/gil.h"

namespace spdl {

// What a Python object holds until a function consumes it. The lock serves builds without the GIL, where two threads
// may ask for the same object at once.
//
// T::bytes() is how much memory T::free() returns to the system. That is done without the GIL, so it must touch nothing
// of Python's; the rest of T is destroyed with the GIL held.
template <typename T>
class Consumable {
  public:
    explicit Consumable(std::shared_ptr<T> held) : held_(std::move(held)) {}

    // Only for handing a new one to Python: nobody else can see `other` yet.
    Consumable(Consumable&& other) noexcept : held_(std::move(other.held_)) {}
    Consumable(const Consumable&) = delete;
    Consumable& operator=(const Consumable&) = delete;
    Consumable& operator=(Consumable&&) = delete;
    ~Consumable() {
        // Clones share it; the last one frees it.
        if (held_.use_count() == 1 && held_->bytes() >= kLargeBytes) {
            const ReleasedGil released;
            held_->free();
        }
    }

    // Raises TypeError where the object was consumed; T::kConsumed says by what, and what to do.
    std::shared_ptr<T> get() const {
        const std::scoped_lock lock(mutex_);
        return checked(held_);
    }

    std::shared_ptr<T> take() {
        const std::scoped_lock lock(mutex_);
        return checked(std::exchange(held_, nullptr));
    }

    [[nodiscard]] bool consumed() const {
        const std::scoped_lock lock(mutex_);
        return held_ == nullptr;
    }

  private:
    static std::shared_ptr<T> checked(std::shared_ptr<T> held) {
        if (!held) {
            throw nanobind::type_error(T::kConsumed);
        }
        return held;
    }

    mutable std::mutex mutex_;
    std::shared_ptr<T> held_;
};

}  // namespace spdl
