#include "image/jpeg2000/openjpeg_codec.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "image/jpeg2000/jpeg2000_header.h"

namespace spdl {

OPJ_SIZE_T OpenjpegCodec::read(void* to, OPJ_SIZE_T size, void* source) noexcept {
    auto& [file, at] = *static_cast<Source*>(source);
    const std::size_t count = std::min<std::size_t>(size, file.size() - at);
    if (count == 0) {
        return static_cast<OPJ_SIZE_T>(-1);
    }
    std::memcpy(to, file.data() + at, count);
    at += count;
    return count;
}

OPJ_OFF_T OpenjpegCodec::skip(OPJ_OFF_T size, void* source) noexcept {
    auto& [file, at] = *static_cast<Source*>(source);
    if (size < 0) {
        return -1;
    }
    at += std::min(static_cast<std::size_t>(size), file.size() - at);
    return size;
}

OPJ_BOOL OpenjpegCodec::seek(OPJ_OFF_T at, void* source) noexcept {
    auto& [file, place] = *static_cast<Source*>(source);
    if (at < 0 || static_cast<std::size_t>(at) > file.size()) {
        return OPJ_FALSE;
    }
    place = static_cast<std::size_t>(at);
    return OPJ_TRUE;
}

void OpenjpegCodec::note(const char* message, void* words) noexcept {
    auto& first = *static_cast<std::array<char, 200>*>(words);
    if (first[0] == '\0') {
        std::strncpy(first.data(), message, first.size() - 1);
    }
}

OpenjpegCodec::OpenjpegCodec(Bytes file, bool has_boxes) : source_{file} {
    // Larger reads do not go through its memory.
    constexpr OPJ_SIZE_T kBuffer = 4096;
    stream_.reset(opj_stream_create(kBuffer, OPJ_TRUE));
    codec_.reset(opj_create_decompress(has_boxes ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K));
    if (!stream_ || !codec_) {
        throw std::bad_alloc();
    }
    opj_stream_set_user_data(stream_.get(), &source_, nullptr);
    opj_stream_set_user_data_length(stream_.get(), file.size());
    opj_stream_set_read_function(stream_.get(), &read);
    opj_stream_set_skip_function(stream_.get(), &skip);
    opj_stream_set_seek_function(stream_.get(), &seek);
    opj_set_error_handler(codec_.get(), &note, &words_);
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    opj_image_t* image = nullptr;
    const bool good = opj_setup_decoder(codec_.get(), &parameters) == OPJ_TRUE &&
                      opj_read_header(stream_.get(), codec_.get(), &image) == OPJ_TRUE;
    image_.reset(image);
    check(good);
}

void OpenjpegCodec::check(bool good) const {
    if (good) {
        return;
    }
    std::string words(words_.data());
    words.erase(words.find_last_not_of(" .\n") + 1);
    refuse_jpeg2000("OpenJPEG says \"" + words + "\"");
}

void OpenjpegCodec::decode(int halvings, const std::optional<Box>& part) {
    if (halvings != 0) {
        check(opj_set_decoded_resolution_factor(codec_.get(), static_cast<OPJ_UINT32>(halvings)) == OPJ_TRUE);
    }
    const Box area = part.value_or(Box{});
    check(opj_set_decode_area(codec_.get(), image_.get(), area.left, area.top, area.right, area.bottom) == OPJ_TRUE);
    check(opj_decode(codec_.get(), stream_.get(), image_.get()) == OPJ_TRUE);
    if (!part) {
        // It reads what follows the code.
        check(opj_end_decompress(codec_.get(), stream_.get()) == OPJ_TRUE);
    }
}

}  // namespace spdl
