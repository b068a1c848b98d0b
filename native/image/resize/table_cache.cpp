#include "image/resize/table_cache.h"

namespace spdl {

const ResampleTable* TableCache::Tables::get(const Axis& axis, Interpolation interpolation,
                                             void (*pack)(ResampleTable&)) {
    for (const ResampleTable& table : tables) {
        if (table.serves(axis, interpolation)) {
            return &table;
        }
    }
    ResampleTable& table = tables[oldest];
    oldest = (oldest + 1) % tables.size();
    table.ready = false;
    table.build(axis, interpolation);
    pack(table);
    table.ready = true;
    return &table;
}

const ResampleTable* TableCache::horizontal(const Axis& axis, Interpolation interpolation,
                                            void (*pack)(ResampleTable&)) {
    if (pack_horizontal_ != pack) {
        pack_horizontal_ = pack;
        horizontal_ = Tables();
    }
    return horizontal_.get(axis, interpolation, pack);
}

const ResampleTable* TableCache::vertical(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&)) {
    if (pack_vertical_ != pack) {
        pack_vertical_ = pack;
        vertical_ = Tables();
    }
    return vertical_.get(axis, interpolation, pack);
}

}  // namespace spdl
