#include <Python.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <ctime>

// CPython before 3.14 ends a thread that attaches to the interpreter while that shuts down. It calls pthread_exit, and
// glibc then unwinds the whole stack. Without the GIL this may happen in any call of Python's, for each may wait for a
// lock. No C++ frame survives it: destructors would drop Python objects, a noexcept function ends the process, and a
// caught exception has to be thrown again. So the thread sleeps in the first of our frames with something to do, until
// the process ends, as CPython 3.14 has it do.
//
// The unwinder asks the personality routine of each C++ frame what to do there. The linker (--wrap) makes this function
// the routine of all our frames, nanobind's among them.

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
    if ((actions & _UA_FORCE_UNWIND) != 0) {
        for (;;) {
            ::pause();
        }
    }
    return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

#ifdef Py_GIL_DISABLED

// CPython 3.13 hands a lock to a thread that still sleeps for it. If the thread is ended when it wakes up, the lock is
// never released, and the thread that shuts down waits for it when it drops one of our objects. nanobind holds its
// locks for less than a microsecond. So a thread that waits for one tries again and again, and sleeps only if that
// takes long, for example while a type is made.
void __real_PyMutex_Lock(PyMutex* mutex);

void __wrap_PyMutex_Lock(PyMutex* mutex) {
    constexpr std::uint8_t kLocked = 1;
    constexpr int kTries = 200;
    for (int number = 0; number < kTries; ++number) {
        std::uint8_t bits = __atomic_load_n(&mutex->_bits, __ATOMIC_RELAXED);
        const auto locked = static_cast<std::uint8_t>(bits | kLocked);
        if (bits != locked &&
            __atomic_compare_exchange_n(&mutex->_bits, &bits, locked, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            return;
        }
        const timespec pause{0, 20'000};
        ::nanosleep(&pause, nullptr);
    }
    __real_PyMutex_Lock(mutex);
}

#endif
}
