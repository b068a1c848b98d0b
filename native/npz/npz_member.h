#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "archive/zip_directory.h"

namespace spdl {

// Throws FormatError if the compressed members of an archive claim to inflate to more than `most` bytes.
void check_budget(const ZipDirectory& directory, std::size_t most);

// Returns the name and place by which messages call a member.
std::string describe(const ZipMember& member);

// A member of an npz archive is an npy file in a zip archive. These functions throw FormatErrors that do not name the
// member; their callers add its name.

// Returns whether its bytes lie in the archive uncompressed. Throws for methods that cannot be read.
bool is_stored(const ZipMember& member);

// Returns its bytes in place. `verify` reads them all to compare their checksum.
Bytes stored_bytes(const ZipDirectory& directory, const ZipMember& member, bool verify);

// Checks that a compressed member can have the size that it claims, before memory is taken for it.
void check_claim(const ZipMember& member);

// Inflates a compressed member into as many bytes as it has, and compares their checksum.
void inflate_member(const ZipDirectory& directory, const ZipMember& member, std::span<std::uint8_t> into);

}  // namespace spdl
