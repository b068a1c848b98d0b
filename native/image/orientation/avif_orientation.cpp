#include "image/orientation/avif_orientation.h"

#include "core/image_items.h"

namespace spdl {

unsigned avif_orientation(Bytes avif) {
    unsigned quarters = 0;  // Anticlockwise.
    bool mirrored = false;  // After the turn.
    bool left_to_right = false;
    for (const FileBox& property : primary_item(avif).properties) {
        if (property.content.empty()) {
            continue;
        }
        if (property.name == "irot") {
            quarters = property.content[0] & 3U;
        } else if (property.name == "imir") {
            mirrored = true;
            left_to_right = (property.content[0] & 1U) != 0;
        }
    }
    // For each number of quarters: as it is, mirrored top to bottom, mirrored left to right.
    static constexpr unsigned kNumbers[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    return kNumbers[quarters][mirrored ? (left_to_right ? 2 : 1) : 0];
}

}  // namespace spdl
