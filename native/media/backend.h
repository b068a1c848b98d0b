#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "media/decoder.h"

namespace spdl {

// A library that decodes images.
struct Backend {
    const char* name;   // The name that users write.
    const char* scope;  // For the error if it was named for an image that it does not decode: "decodes JPEG only".
    std::unique_ptr<Decoder> (*make_decoder)();
};

// Adds a backend behind those that are there. Every program does this once, before it starts threads. `backend` must
// live as long as the program; adding it again has no effect.
void register_backend(const Backend& backend);

// The backends in the order in which they are asked.
std::span<const Backend* const> backends() noexcept;

// Returns null if there is no backend of that name.
const Backend* find_backend(std::string_view name) noexcept;

// Returns the name for users; "" for null.
inline const char* backend_name(const Backend* backend) {
    return backend == nullptr ? "" : backend->name;
}

// Throws the MediaError for an image that the backend does not decode although the user named it.
[[noreturn]] void refuse(const Backend& backend);

}  // namespace spdl
