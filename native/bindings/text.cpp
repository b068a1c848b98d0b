#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/modules.h"
#include "bindings/native_call.h"
#include "bindings/numpy_array.h"
#include "text/rows.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {
namespace {

using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::int64_t> view(const Integers& array) {
    return {array.data(), array.size()};
}

std::span<std::int32_t> view(const Row& array) {
    return {array.data(), array.size()};
}

// Makes an array that owns the numbers.
template <typename Number>
nb::object to_numpy(std::vector<Number> numbers) {
    auto held = std::make_unique<std::vector<Number>>(std::move(numbers));
    auto* const content = held.get();
    const nb::capsule owner(content, [](void* pointer) noexcept { delete static_cast<std::vector<Number>*>(pointer); });
    static_cast<void>(held.release());
    const std::array<std::size_t, 1> shape = {content->size()};
    return show_array(shape, numpy_dtype('i', sizeof(Number)),
                      {reinterpret_cast<std::uint8_t*>(content->data()), true, owner});
}

nb::tuple to_numpy(Segments segments) {
    return nb::make_tuple(to_numpy(std::move(segments.documents)), to_numpy(std::move(segments.starts)),
                          to_numpy(std::move(segments.stops)), to_numpy(std::move(segments.offsets)));
}

nb::tuple pack_lengths(const Integers& lengths, std::int64_t length, PackingAlgorithm algorithm, Split split,
                       std::int64_t align) {
    Segments found;
    {
        const NativeCall call("pack");
        found = pack(view(lengths), {algorithm, split, length, align});
    }
    return to_numpy(std::move(found));
}

// With the GIL, since it takes less time than to get it again, unless there are many rows.
nb::tuple select_rows(const Integers& documents, const Integers& starts, const Integers& stops, const Integers& offsets,
                      const Integers& rows) {
    constexpr std::size_t kMany = 4096;
    Segments found;
    {
        std::optional<NativeCall> call;
        if (rows.size() > kMany) {
            call.emplace("select_rows");
        }
        found = select({view(documents), view(starts), view(stops), view(offsets)}, view(rows));
    }
    return to_numpy(std::move(found));
}

std::optional<TokenType> token_type(nb::dlpack::dtype type) {
    const bool is_signed = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
    const bool is_bool = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool);
    const bool is_unsigned = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
    if (type.lanes != 1 || !(is_signed || is_unsigned || (is_bool && type.bits == 8))) {
        return std::nullopt;
    }
    switch (type.bits) {
        case 8:
            return is_signed ? TokenType::kInt8 : TokenType::kUint8;
        case 16:
            return is_signed ? TokenType::kInt16 : TokenType::kUint16;
        case 32:
            return is_signed ? TokenType::kInt32 : TokenType::kUint32;
        case 64:
            return is_signed ? TokenType::kInt64 : TokenType::kUint64;
        default:
            return std::nullopt;
    }
}

// Arrays of tokens that are looked at once and then read by many calls. It keeps them alive.
class TokenArrays {
  public:
    explicit TokenArrays(const nb::sequence& arrays) {
        for (const nb::handle each : arrays) {
            auto array = nb::cast<AnyArray>(each);
            const std::optional<TokenType> type = token_type(array.dtype());
            if (!type) {
                throw nb::type_error("tokens must be arrays of integers");
            }
            arrays_.push_back({array.data(), array.size(), *type});
            held_.push_back(std::move(array));
        }
    }

    [[nodiscard]] std::span<const TokenArray> get() const { return arrays_; }

  private:
    std::vector<TokenArray> arrays_;
    std::vector<AnyArray> held_;
};

Places places(const TokenArrays& arrays, const Integers& numbers, const Integers& firsts) {
    return {arrays.get(), view(numbers), view(firsts)};
}

nb::tuple write(const Integers& documents, const Integers& starts, const Integers& stops, const Integers& lengths,
                const Integers& offsets, const TokenArrays& tokens, const Integers& numbers, const Integers& firsts,
                const TokenArrays* masks, const Integers& mask_numbers, const Integers& mask_firsts,
                std::int64_t length, std::int64_t align, std::int64_t vocab_size, std::int32_t pad, Labels labels,
                const Row& token_rows, const Row& position_rows, const Row& segment_rows,
                const std::optional<Row>& label_rows) {
    RowBounds bounds;
    {
        const NativeCall call("write_rows");
        const RowSegments rows{view(documents),
                               view(starts),
                               view(stops),
                               view(lengths),
                               view(offsets),
                               places(tokens, numbers, firsts),
                               masks == nullptr ? Places{} : places(*masks, mask_numbers, mask_firsts)};
        const RowArrays arrays{view(token_rows), view(position_rows), view(segment_rows),
                               label_rows ? view(*label_rows) : std::span<std::int32_t>()};
        bounds = write_rows(rows, {length, align, vocab_size, pad, labels}, arrays);
    }
    return nb::make_tuple(to_numpy(std::move(bounds.cumulative)), to_numpy(std::move(bounds.rows)), bounds.longest);
}

}  // namespace

void bind_text(nb::module_& module) {
    nb::enum_<PackingAlgorithm>(module, "PackingAlgorithm")
        .value("BEST_FIT", PackingAlgorithm::kBestFit)
        .value("FIRST_FIT", PackingAlgorithm::kFirstFit)
        .value("CONCAT", PackingAlgorithm::kConcat)
        .value("NONE", PackingAlgorithm::kAlone);
    nb::enum_<Split>(module, "Split")
        .value("NEVER", Split::kNever)
        .value("LONG", Split::kLong)
        .value("ALWAYS", Split::kAlways);
    nb::enum_<Labels>(module, "Labels")
        .value("NONE", Labels::kNone)
        .value("SHIFTED", Labels::kShifted)
        .value("UNSHIFTED", Labels::kUnshifted);
    nb::class_<TokenArrays>(module, "TokenArrays").def(nb::init<const nb::sequence&>(), "arrays"_a);
    module.def("pack_lengths", &pack_lengths, "lengths"_a, "length"_a, "algorithm"_a, "split"_a, "align"_a);
    module.def("select_rows", &select_rows, "documents"_a, "starts"_a, "stops"_a, "offsets"_a, "rows"_a);
    module.def("write_rows", &write, "documents"_a, "starts"_a, "stops"_a, "lengths"_a, "offsets"_a, "tokens"_a,
               "numbers"_a, "firsts"_a, "masks"_a.none(), "mask_numbers"_a, "mask_firsts"_a, "length"_a, "align"_a,
               "vocab_size"_a, "pad"_a, "labels"_a, "token_rows"_a, "position_rows"_a, "segment_rows"_a,
               "label_rows"_a.none());
}

}  // namespace spdl
