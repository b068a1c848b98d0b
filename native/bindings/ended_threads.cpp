#include <Python.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <ctime>

// CPython before 3.14 ends a thread that attaches to the interpreter while that shuts down: with pthread_exit, which
// glibc makes an unwinding of the whole stack. Without the GIL any call of Python's may be the place, for each may wait
// for a lock. No C++ frame survives it: destructors would let go of Python objects, a noexcept function ends the
// process, and what is caught has to be thrown again. So the thread gets no further than to the first of our frames
// with something to do, where it sleeps until the process ends, which is what CPython 3.14 has it do.
//
// The unwinder asks each C++ frame's personality routine what to do there. The linker makes this function the one of
// all our frames, nanobind's among them (--wrap).

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

// A thread that sleeps for a lock of CPython 3.13 is handed it while it still sleeps. If it is ended when it wakes up,
// nobody ever gives the lock back, and the thread that shuts down waits for it when it drops an object of ours.
// nanobind holds its locks for less than a microsecond: so whoever waits for one tries again and again, and sleeps for
// it only where that takes long, as where a type is made.
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
