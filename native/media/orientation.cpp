#include "media/orientation.h"

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

}  // namespace spdl
