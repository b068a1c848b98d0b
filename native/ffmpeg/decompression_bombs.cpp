#include "ffmpeg/decompression_bombs.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/aligned_buffer.h"
#include "core/decompressor.h"
#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// The most that deflate makes of a byte: a match of 258 bytes takes at least two bits.
constexpr std::size_t kMaxRatio = 1032;

std::size_t big_endian(Bytes bytes, std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
        value = value << 8U | bytes[i];
    }
    return value;
}

std::string megabytes(std::size_t size) {
    return std::to_string(size >> 20U) + " MB";
}

// Returns how much a zlib stream inflates to, at most `limit`; `limit` itself if that cannot be told.
std::size_t inflated_size(Bytes compressed, std::size_t limit) {
    const AlignedBuffer result(limit);
    std::size_t made = 0;
    const libdeflate_result code = libdeflate_zlib_decompress(decompressor(), compressed.data(), compressed.size(),
                                                              result.data(), result.size(), &made);
    return code == LIBDEFLATE_SUCCESS ? made : limit;
}

// The compressed part of a chunk follows a name, a null character and the number of the method.
Bytes compressed_part(std::string_view kind, Bytes content) {
    if (kind != "zTXt" && kind != "iCCP") {
        return {};
    }
    const auto name = std::ranges::find(content, std::uint8_t{0});
    const auto from = static_cast<std::size_t>(name - content.begin()) + 2;
    return from < content.size() ? content.subspan(from) : Bytes();
}

void check_png(Bytes bytes) {
    constexpr std::size_t kAround = 12;  // The length, the name and the checksum of a chunk.
    constexpr std::uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (bytes.size() >= sizeof(kSignature) && std::memcmp(bytes.data(), kSignature, sizeof(kSignature)) == 0) {
        bytes = bytes.subspan(sizeof(kSignature));
    }
    std::size_t left = kMaxMetadata;
    while (bytes.size() >= kAround) {
        const std::size_t length = std::min(big_endian(bytes, 0), bytes.size() - kAround);
        const std::string_view kind(reinterpret_cast<const char*>(bytes.data()) + 4, 4);
        const Bytes compressed = compressed_part(kind, bytes.subspan(8, length));
        // Hardly any file has so much that it has to be inflated here.
        const std::size_t size =
            compressed.size() < left / kMaxRatio ? compressed.size() * kMaxRatio : inflated_size(compressed, left);
        if (size >= left) {
            throw MediaError("the PNG's compressed texts and profiles inflate to more than the " +
                             megabytes(kMaxMetadata) + " that are accepted, or are damaged: its chunk " +
                             std::string(kind) + " of " + std::to_string(length) + " bytes is one too many");
        }
        left -= size;
        bytes = bytes.subspan(length + kAround);
    }
}

}  // namespace

void check_container(Bytes bytes) {
    // The claimed size follows the name of the method and four bytes with the name of what follows.
    constexpr std::string_view kCompressed = "dcomzlib";
    constexpr std::size_t kClaim = kCompressed.size() + 8;
    const auto* at = bytes.data();
    const auto* const end = at + bytes.size();
    while ((at = static_cast<const std::uint8_t*>(
                memmem(at, static_cast<std::size_t>(end - at), kCompressed.data(), kCompressed.size()))) != nullptr) {
        const Bytes rest(at, end);
        if (rest.size() >= kClaim + 4 && big_endian(rest, kClaim) > kMaxMetadata) {
            throw MediaError("the container's compressed header is said to inflate to " +
                             megabytes(big_endian(rest, kClaim)) + "; " + megabytes(kMaxMetadata) + " are accepted");
        }
        at += kCompressed.size();
    }
}

void check_metadata(const ImagePacket& image) {
    if (image.parameters->codec_id == AV_CODEC_ID_PNG || image.parameters->codec_id == AV_CODEC_ID_APNG) {
        check_png({image.packet->data, static_cast<std::size_t>(image.packet->size)});
        check_png({image.parameters->extradata, static_cast<std::size_t>(image.parameters->extradata_size)});
    }
}

}  // namespace spdl
