#include <unistd.h>
#include <unwind.h>

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
}
