#pragma once

#include <openjpeg.h>

#include <array>
#include <memory>
#include <optional>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// OpenJPEG's decoder of one file, which stays in place. Throws MediaErrors.
class OpenjpegCodec {
  public:
    // Reads the header.
    OpenjpegCodec(Bytes file, bool has_boxes);
    OpenjpegCodec(const OpenjpegCodec&) = delete;
    OpenjpegCodec& operator=(const OpenjpegCodec&) = delete;

    // Decodes the picture, halved so often, or a part of it on its grid. Once.
    void decode(int halvings, const std::optional<Box>& part);

    // The picture: before decode() only what the header says of it.
    [[nodiscard]] const opj_image_t& image() const { return *image_; }

  private:
    // Throws what OpenJPEG has said first.
    void check(bool good) const;

    template <auto kDestroy>
    struct Destroy {
        void operator()(auto* object) const noexcept { kDestroy(object); }
    };
    // What the stream reads, and from where on.
    struct Source {
        Bytes file;
        std::size_t at = 0;
    };
    static OPJ_SIZE_T read(void* to, OPJ_SIZE_T size, void* source) noexcept;
    static OPJ_OFF_T skip(OPJ_OFF_T size, void* source) noexcept;
    static OPJ_BOOL seek(OPJ_OFF_T at, void* source) noexcept;
    static void note(const char* message, void* words) noexcept;

    Source source_;
    std::array<char, 200> words_{};
    std::unique_ptr<opj_stream_t, Destroy<opj_stream_destroy>> stream_;
    std::unique_ptr<opj_codec_t, Destroy<opj_destroy_codec>> codec_;
    std::unique_ptr<opj_image_t, Destroy<opj_image_destroy>> image_;
};

}  // namespace spdl
