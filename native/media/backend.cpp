#include "media/backend.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/media_error.h"

namespace spdl {
namespace {

// Never destroyed: threads may outlive the process's static objects.
std::vector<const Backend*>& registry() {
    static std::vector<const Backend*>* const all = new std::vector<const Backend*>;
    return *all;
}

}  // namespace

void register_backend(const Backend& backend) {
    if (std::ranges::find(registry(), &backend) == registry().end()) {
        registry().push_back(&backend);
    }
}

std::span<const Backend* const> backends() noexcept {
    return registry();
}

const Backend* find_backend(std::string_view name) noexcept {
    const auto found = std::ranges::find(registry(), name, &Backend::name);
    return found == registry().end() ? nullptr : *found;
}

void refuse(const Backend& backend) {
    throw MediaError(std::string(backend.name) + " " + backend.scope + ", but was asked for");
}

}  // namespace spdl
