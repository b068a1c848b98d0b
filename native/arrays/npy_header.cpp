#include <cstdint>
#include <cstring>
#include <string>

#include "arrays/arrays.h"
#include "core/bytes.h"
#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy writes less than a thousand characters unless a structured type has many fields.
constexpr std::size_t kMaxHeader = std::size_t{1} << 20;

// The most brackets in a list of fields: Python's own parser reads the literal, and must not run out of stack.
constexpr int kMaxNesting = 32;

// The dictionary of the header: the part of Python's literals that headers use.
class Literal {
  public:
    // `offset` is where the text begins in the file, for messages.
    Literal(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

    [[noreturn]] void fail(const std::string& what) const {
        throw FormatError("the npy header " + what + " at byte " + std::to_string(offset_ + place_));
    }

    // Skips white space, and takes the character if it comes next.
    bool take(char expected) {
        skip_space();
        if (place_ < text_.size() && text_[place_] == expected) {
            ++place_;
            return true;
        }
        return false;
    }

    void require(char expected) {
        if (!take(expected)) {
            fail(std::string("lacks '") + expected + "'");
        }
    }

    bool ended() {
        skip_space();
        return place_ == text_.size();
    }

    char peek() {
        skip_space();
        return place_ < text_.size() ? text_[place_] : '\0';
    }

    std::string_view string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') {
            fail("lacks a string");
        }
        const std::size_t start = ++place_;
        const std::size_t end = text_.find(quote, start);
        if (end == std::string_view::npos) {
            fail("holds a string without an end");
        }
        place_ = end + 1;
        return text_.substr(start, end - start);
    }

    // Returns the text of a list with everything in it, unparsed.
    std::string_view list() {
        skip_space();
        const std::size_t start = place_;
        int depth = 0;
        while (place_ < text_.size()) {
            const char next = text_[place_];
            if (next == '\'' || next == '"') {
                skip_string(next);
                continue;
            }
            ++place_;
            if (next == '[' || next == '(') {
                if (++depth > kMaxNesting) {
                    fail("nests its fields too deeply");
                }
            } else if ((next == ']' || next == ')') && --depth == 0) {
                return text_.substr(start, place_ - start);
            }
        }
        fail("holds a list without an end");
    }

    bool boolean() {
        skip_space();
        for (const auto& [word, value] : {std::pair{std::string_view("False"), false}, {"True", true}}) {
            if (text_.substr(place_, word.size()) == word) {
                place_ += word.size();
                return value;
            }
        }
        fail("lacks True or False");
    }

    std::size_t integer() {
        skip_space();
        const std::size_t start = place_;
        std::size_t value = 0;
        while (place_ < text_.size() && text_[place_] >= '0' && text_[place_] <= '9') {
            if (__builtin_mul_overflow(value, std::size_t{10}, &value) ||
                __builtin_add_overflow(value, static_cast<std::size_t>(text_[place_] - '0'), &value) ||
                value > static_cast<std::size_t>(PTRDIFF_MAX)) {
                fail("gives a side that no memory could hold");
            }
            ++place_;
        }
        if (place_ == start) {
            fail("lacks a side, a whole number that is not negative,");
        }
        // Python 2 wrote long integers so.
        if (place_ < text_.size() && text_[place_] == 'L') {
            ++place_;
        }
        return value;
    }

  private:
    void skip_space() {
        while (place_ < text_.size() && (text_[place_] == ' ' || text_[place_] == '\n' || text_[place_] == '\t')) {
            ++place_;
        }
    }

    void skip_string(char quote) {
        ++place_;
        while (place_ < text_.size() && text_[place_] != quote) {
            place_ += text_[place_] == '\\' ? std::size_t{2} : 1;
        }
        ++place_;
    }

    std::string_view text_;
    std::size_t offset_;
    std::size_t place_ = 0;
};

void read_shape(Literal& literal, NpyHeader& header) {
    literal.require('(');
    bool empty = false;
    while (literal.peek() != ')') {
        if (header.dims == NpyHeader::kMaxDims) {
            literal.fail("gives more than " + std::to_string(NpyHeader::kMaxDims) + " sides");
        }
        const std::size_t side = literal.integer();
        header.sides[header.dims++] = side;
        empty = empty || side == 0;
        // An empty array has no elements, whatever its other sides are, but the product of the others must not
        // overflow.
        if (__builtin_mul_overflow(header.elements, side == 0 ? 1 : side, &header.elements) ||
            header.elements > static_cast<std::size_t>(PTRDIFF_MAX)) {
            literal.fail("gives sides of which the product is more than any memory could hold");
        }
        if (!literal.take(',') && (header.dims == 1 || literal.peek() != ')')) {
            literal.fail(header.dims == 1 ? "lacks ','" : "lacks ',' or ')'");
        }
    }
    literal.require(')');
    if (empty) {
        header.elements = 0;
    }
}

void read_dictionary(Literal literal, NpyHeader& header) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    literal.require('{');
    while (!literal.take('}')) {
        const std::string_view key = literal.string();
        literal.require(':');
        if (key == "descr" && !has_descr) {
            header.structured = literal.peek() == '[';
            header.descr = header.structured ? literal.list() : literal.string();
            has_descr = true;
        } else if (key == "fortran_order" && !has_order) {
            header.fortran_order = literal.boolean();
            has_order = true;
        } else if (key == "shape" && !has_shape) {
            read_shape(literal, header);
            has_shape = true;
        } else {
            literal.fail("has a key that is unknown or there twice, before");
        }
        if (!literal.take(',') && literal.peek() != '}') {
            literal.fail("lacks ',' or '}'");
        }
    }
    if (!literal.ended()) {
        literal.fail("goes on after its dictionary");
    }
    if (!has_descr || !has_order || !has_shape) {
        literal.fail("lacks one of 'descr', 'fortran_order' and 'shape'");
    }
}

}  // namespace

NpyHeader parse_npy_header(Bytes data) {
    const std::size_t lead = kMagic.size() + 2;
    if (data.size() < lead || std::memcmp(data.data(), kMagic.data(), kMagic.size()) != 0) {
        throw FormatError("this is not npy data: the " + std::to_string(data.size()) +
                          " bytes do not begin with the magic \"\\x93NUMPY\" and a version");
    }
    const unsigned version = data[kMagic.size()];
    if (version < 1 || version > 3 || data[kMagic.size() + 1] != 0) {
        throw FormatError("the npy data is of version " + std::to_string(version) + "." +
                          std::to_string(data[kMagic.size() + 1]) + "; versions 1.0, 2.0 and 3.0 can be read");
    }
    const std::size_t width = version == 1 ? 2 : 4;
    if (data.size() < lead + width) {
        throw FormatError("the npy data is truncated: it ends at byte " + std::to_string(data.size()) +
                          ", in the length of its header");
    }
    const std::uint8_t* const field = data.data() + lead;
    const std::size_t length = version == 1 ? load_le<std::uint16_t>(field) : load_le<std::uint32_t>(field);
    const std::size_t start = lead + width;
    if (length > data.size() - start) {
        throw FormatError("the npy data is truncated: its header goes up to byte " + std::to_string(start + length) +
                          ", and there are " + std::to_string(data.size()));
    }
    if (length > kMaxHeader) {
        throw FormatError("the npy header says that it has " + std::to_string(length) + " bytes, more than the " +
                          std::to_string(kMaxHeader) + " that are accepted");
    }
    NpyHeader header;
    header.utf8 = version == 3;
    header.offset = start + length;
    read_dictionary(Literal({reinterpret_cast<const char*>(data.data()) + start, length}, start), header);
    return header;
}

}  // namespace spdl
