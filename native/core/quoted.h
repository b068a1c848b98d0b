#pragma once

#include <string>
#include <string_view>

namespace spdl {

// Returns a name out of untrusted bytes in a form for messages: long names are cut, and nothing in it can end or garble
// the line. Letters beyond ASCII stay as they are, which need not be UTF-8, if `escape_others` is false.
inline std::string quoted(std::string_view name, bool escape_others = false) {
    constexpr std::size_t kShown = 200;
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = "\"";
    for (const char letter : name.substr(0, kShown)) {
        const auto code = static_cast<unsigned char>(letter);
        if (code < 0x20 || code == 0x7f || (escape_others && code > 0x7f)) {
            text += "\\x";
            text += kDigits[code >> 4];
            text += kDigits[code & 15];
        } else {
            text += letter;
        }
    }
    return text + (name.size() > kShown ? "...\"" : "\"");
}

}  // namespace spdl
