#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays/arrays.h"
#include "bindings/modules.h"
#include "bindings/native_call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

template <typename Number>
using Column = nb::ndarray<Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WritableTable = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyColumn = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Array>
auto view(const Array& array) {
    return std::span(array.data(), array.size());
}

void take_rows(const Table& table, const Column<const std::int64_t>& rows, const WritableTable& target) {
    const NativeCall call("take_rows");
    if (table.shape(1) != target.shape(1)) {
        throw std::invalid_argument("the rows of the table and the target differ");
    }
    gather_rows(view(table), table.shape(1), view(rows), view(target));
}

template <typename Offset>
void take_offsets(const Column<const Offset>& offsets, const Column<const std::int64_t>& rows,
                  const Column<std::int64_t>& target) {
    const NativeCall call("take_offsets");
    gather_offsets<Offset>(view(offsets), view(rows), view(target));
}

template <typename Offset>
void take_lists(const Column<const Offset>& offsets, const Table& values, const Column<const std::int64_t>& rows,
                const Column<const std::int64_t>& places, const WritableTable& target) {
    const NativeCall call("take_lists");
    if (values.shape(1) != target.shape(1)) {
        throw std::invalid_argument("the values and the target differ in width");
    }
    gather_lists<Offset>(view(offsets), view(values), values.shape(1), view(rows), view(places), view(target));
}

void pack_columns(const std::vector<std::pair<AnyColumn, std::size_t>>& columns, const WritableTable& records) {
    std::vector<Field> fields;
    for (const auto& [column, offset] : columns) {
        if (column.size() != records.shape(0)) {
            throw std::invalid_argument("a column has another length than the records");
        }
        fields.push_back({static_cast<const std::uint8_t*>(column.data()), column.itemsize(), offset});
    }
    const NativeCall call("pack_columns");
    interleave(fields, records.shape(1), view(records));
}

}  // namespace

void bind_tables(nb::module_& module) {
    module.def("take_rows", &take_rows, "table"_a, "rows"_a, "target"_a);
    module.def("take_offsets", &take_offsets<std::int32_t>, "offsets"_a, "rows"_a, "target"_a);
    module.def("take_offsets", &take_offsets<std::int64_t>, "offsets"_a, "rows"_a, "target"_a);
    module.def("take_lists", &take_lists<std::int32_t>, "offsets"_a, "values"_a, "rows"_a, "places"_a, "target"_a);
    module.def("take_lists", &take_lists<std::int64_t>, "offsets"_a, "values"_a, "rows"_a, "places"_a, "target"_a);
    module.def("pack_columns", &pack_columns, "columns"_a, "records"_a);
}

}  // namespace spdl
