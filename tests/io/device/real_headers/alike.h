// Compares our declarations with NVIDIA's. The types have other names, so kinds and sizes are compared.
#pragma once

#include <cstddef>
#include <type_traits>

template <typename T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

// Two types that are passed in the same way: numbers and enumerators of one size, or pointers.
template <typename A, typename B>
constexpr bool same_kind = sizeof(A) == sizeof(B) && is_number<A> == is_number<B> &&
                           std::is_pointer_v<A> == std::is_pointer_v<B>;

template <typename R1, typename... A1, typename R2, typename... A2>
constexpr bool alike(R1 (*)(A1...), R2 (*)(A2...)) {
    if constexpr (sizeof...(A1) != sizeof...(A2)) {
        return false;
    } else {
        return same_kind<R1, R2> && (same_kind<A1, A2> && ...);
    }
}

#define SAME_FUNCTION(table, ours, theirs) \
    static_assert(alike(decltype(table::ours){}, static_cast<decltype(&theirs)>(nullptr)), #theirs)

#define SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs), #theirs)

#define SAME_FIELD(ours, our_field, theirs, their_field)                        \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                      sizeof(ours::our_field) == sizeof(theirs::their_field),   \
                  #theirs "." #their_field)
