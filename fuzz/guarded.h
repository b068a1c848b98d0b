#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

namespace spdl::fuzz {

// Memory behind whose last byte nothing can be touched: code that goes further ends the program, even a library's code
// or a vector's tail, which AddressSanitizer does not watch.
class Guarded {
  public:
    explicit Guarded(std::size_t size) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
        const std::size_t usable = (size + page - 1) / page * page;
        whole_ = usable + page;
        memory_ = ::mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
        auto* const start = static_cast<std::uint8_t*>(memory_);
        ::mprotect(start + usable, page, PROT_NONE);
        bytes_ = {start + usable - size, size};
    }

    explicit Guarded(std::span<const std::uint8_t> content) : Guarded(content.size()) {
        if (!content.empty()) {
            std::memcpy(bytes_.data(), content.data(), content.size());
        }
    }

    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    ~Guarded() { ::munmap(memory_, whole_); }

    [[nodiscard]] std::span<std::uint8_t> bytes() const { return bytes_; }

  private:
    void* memory_ = nullptr;
    std::size_t whole_ = 0;
    std::span<std::uint8_t> bytes_;
};

}  // namespace spdl::fuzz
