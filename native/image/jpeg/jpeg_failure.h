#pragma once

#include <cstdio>
#include <string>

// jpeglib.h wants these first.
#include <jpeglib.h>
#include <setjmp.h>

namespace spdl {

// How libjpeg gives up: it jumps out of its work, and prints nothing. What the jump leaves in place is here.
struct JpegFailure {
    jpeg_error_mgr errors{};
    jmp_buf on_error{};
    char message[JMSG_LENGTH_MAX]{};
    bool out_of_memory = false;

    // What the jump hands over.
    static constexpr int kFailed = 1;

    static JpegFailure& of(j_common_ptr codec) { return *static_cast<JpegFailure*>(codec->client_data); }

    // Has a codec that is yet to be created give up so.
    void handle_errors_of(j_common_ptr codec) noexcept;

    // Throws what has happened: MediaError with the message behind `what`, or bad_alloc.
    [[noreturn]] void raise(const std::string& what) const;
};

}  // namespace spdl
