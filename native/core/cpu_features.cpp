#include "core/cpu_features.h"

#if defined(__x86_64__)

#include <cpuid.h>

namespace spdl {
namespace {

// Bits of CPUID leaf 1, register ECX.
constexpr unsigned kOsXsave = 1U << 27;
constexpr unsigned kFmaF16c = 1U << 12 | 1U << 29;
constexpr unsigned kClmulSsse3 = 1U << 1 | 1U << 9;

// Bits of CPUID leaf 7, registers EBX and ECX.
constexpr unsigned kAvx2 = 1U << 5;
constexpr unsigned kAvx512fBwVl = 1U << 16 | 1U << 30 | 1U << 31;
constexpr unsigned kAvx512VbmiVnni = 1U << 1 | 1U << 11;

// Bits of XCR0: which registers the operating system saves.
constexpr unsigned kYmm = 1U << 1 | 1U << 2;
constexpr unsigned kZmm = kYmm | 1U << 5 | 1U << 6 | 1U << 7;

struct Features {
    unsigned leaf1_ecx = 0;
    unsigned leaf7_ebx = 0;
    unsigned leaf7_ecx = 0;
    unsigned saved = 0;
};

Features read_features() noexcept {
    Features features;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) {
        return features;
    }
    features.leaf1_ecx = ecx;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(features.saved), "=d"(high) : "c"(0));
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
        features.leaf7_ebx = ebx;
        features.leaf7_ecx = ecx;
    }
    return features;
}

// Read once: a virtual machine takes long to answer.
const Features& known_features() noexcept {
    static const Features features = read_features();
    return features;
}

bool has(unsigned bits, unsigned wanted) noexcept {
    return (bits & wanted) == wanted;
}

}  // namespace

bool has_avx2() noexcept {
    const Features& features = known_features();
    return has(features.saved, kYmm) && has(features.leaf7_ebx, kAvx2) && has(features.leaf1_ecx, kFmaF16c);
}

bool has_avx512_vnni() noexcept {
    const Features& features = known_features();
    return has(features.saved, kZmm) && has(features.leaf7_ebx, kAvx512fBwVl) &&
           has(features.leaf7_ecx, kAvx512VbmiVnni);
}

bool has_clmul() noexcept {
    return has(known_features().leaf1_ecx, kClmulSsse3);
}

}  // namespace spdl

#endif
