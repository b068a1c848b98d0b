#pragma once

namespace spdl {

// The rows that a decoder delivers: `pixels` pixels each, of which the first `skipped` are not wanted.
struct DecodedRows {
    int pixels = 0;
    int skipped = 0;
};

}  // namespace spdl
