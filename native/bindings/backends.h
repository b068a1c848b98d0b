#pragma once

namespace spdl {

// Registers every backend of the extension. It knows no Python, because other programs over the same code call it, too.
void register_backends();

}  // namespace spdl
