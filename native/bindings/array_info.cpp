#include "bindings/array_info.h"

#include <bit>
#include <cstdint>

namespace nb = nanobind;

namespace spdl {

const char* dtype_name(ElementType type) {
    switch (type) {
        case ElementType::kUint16:
            return "uint16";
        case ElementType::kInt16:
            return "int16";
        case ElementType::kInt32:
            return "int32";
        case ElementType::kInt64:
            return "int64";
        case ElementType::kFloat16:
            return "float16";
        case ElementType::kFloat32:
            return "float32";
        case ElementType::kFloat64:
            return "float64";
        case ElementType::kUint8:
            break;
    }
    return "uint8";
}

std::string type_string(ElementType type) {
    const std::string order = std::endian::native == std::endian::big ? ">" : "<";
    switch (type) {
        case ElementType::kUint16:
            return order + "u2";
        case ElementType::kInt16:
            return order + "i2";
        case ElementType::kInt32:
            return order + "i4";
        case ElementType::kInt64:
            return order + "i8";
        case ElementType::kFloat16:
            return order + "f2";
        case ElementType::kFloat32:
            return order + "f4";
        case ElementType::kFloat64:
            return order + "f8";
        case ElementType::kUint8:
            break;
    }
    return "|u1";
}

nb::dlpack::dtype dlpack_type(ElementType type) {
    switch (type) {
        case ElementType::kUint16:
            return nb::dtype<std::uint16_t>();
        case ElementType::kInt16:
            return nb::dtype<std::int16_t>();
        case ElementType::kInt32:
            return nb::dtype<std::int32_t>();
        case ElementType::kInt64:
            return nb::dtype<std::int64_t>();
        case ElementType::kFloat16:
            return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
        case ElementType::kFloat32:
            return nb::dtype<float>();
        case ElementType::kFloat64:
            return nb::dtype<double>();
        case ElementType::kUint8:
            break;
    }
    return nb::dtype<std::uint8_t>();
}

nb::tuple shape_tuple(const std::vector<std::size_t>& shape) {
    nb::list sides;
    for (const std::size_t side : shape) {
        sides.append(side);
    }
    return nb::tuple(sides);
}

}  // namespace spdl
