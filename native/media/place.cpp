#include "media/place.h"

namespace spdl {

Box Orientation::stored_box(const Box& upright, Size stored) const {
    Box box = transposed ? Box{upright.top, upright.left, upright.bottom, upright.right} : upright;
    if (mirrored_x) {
        box = {stored.width - box.right, box.top, stored.width - box.left, box.bottom};
    }
    if (mirrored_y) {
        box = {box.left, stored.height - box.bottom, box.right, stored.height - box.top};
    }
    return box;
}

Orientation turned(const Orientation& stored, const Orientation& turn) {
    const bool across = stored.transposed ? turn.mirrored_y : turn.mirrored_x;
    const bool down = stored.transposed ? turn.mirrored_x : turn.mirrored_y;
    return {stored.transposed != turn.transposed, stored.mirrored_x != across, stored.mirrored_y != down};
}

Orientation turned_by(int degrees) {
    switch (degrees) {
        case 90:
            return {true, false, true};
        case 180:
            return {false, true, true};
        case 270:
            return {true, true, false};
        default:
            return {};
    }
}

}  // namespace spdl
