#pragma once

namespace spdl {

// These functions tell which instruction sets the processor has and the operating system saves when it switches
// threads. The compiler's own __builtin_cpu_supports is not used: it needs a runtime library that the compiler of the
// wheels does not come with. This one asks for AVX2, FMA and F16C, which came together.
bool has_avx2() noexcept;

// AVX-512 with the subsets F, BW, VL, VBMI and VNNI.
bool has_avx512_vnni() noexcept;

// The product of polynomials of 64 bits, and SSSE3.
bool has_clmul() noexcept;

}  // namespace spdl
