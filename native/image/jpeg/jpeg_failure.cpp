#include "image/jpeg/jpeg_failure.h"

#include <jerror.h>

#include <new>

#include "core/media_error.h"

namespace spdl {
namespace {

void on_error_exit(j_common_ptr codec) {
    JpegFailure& failure = JpegFailure::of(codec);
    failure.out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
    codec->err->format_message(codec, failure.message);
    longjmp(failure.on_error, JpegFailure::kFailed);
}

void on_message(j_common_ptr /*codec*/, int /*level*/) {}

void on_output(j_common_ptr /*codec*/) {}

}  // namespace

void JpegFailure::handle_errors_of(j_common_ptr codec) noexcept {
    codec->err = jpeg_std_error(&errors);
    codec->client_data = this;
    errors.error_exit = on_error_exit;
    errors.emit_message = on_message;
    errors.output_message = on_output;
}

void JpegFailure::raise(const std::string& what) const {
    if (out_of_memory) {
        throw std::bad_alloc();
    }
    throw MediaError(what + message);
}

}  // namespace spdl
