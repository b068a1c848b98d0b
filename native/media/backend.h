#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "media/decoder.h"

namespace spdl {

// A library that decodes images.
struct Backend {
    const char* name;   // As users write it.
    const char* scope;  // What it decodes, for the error of those who ask for it in vain: "decodes JPEG only".
    std::unique_ptr<Decoder> (*make_decoder)();
};

// Adds a backend to those that are asked, after those that are there. Every program does this once, before it starts
// threads. `backend` must live as long as the program; adding it again has no effect.
void register_backend(const Backend& backend);

// The backends in the order in which they are asked.
std::span<const Backend* const> backends() noexcept;

// Returns null if there is no backend of that name.
const Backend* find_backend(std::string_view name) noexcept;

// The name for users; "" for none.
inline const char* backend_name(const Backend* backend) {
    return backend == nullptr ? "" : backend->name;
}

// Throws the MediaError for an image that the backend does not decode although it was asked for.
[[noreturn]] void refuse(const Backend& backend);

}  // namespace spdl
