#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "archive/zip_directory.h"

namespace spdl {

// Throws FormatError where the compressed members of an archive are said to inflate to more than `most` bytes.
void check_budget(const ZipDirectory& directory, std::size_t most);

// What messages call a member: by its name and place.
std::string describe(const ZipMember& member);

// A member of an npz archive: an npy file in a zip archive. These throw FormatError without saying which member it is,
// which their callers put in front of it.

// Whether its bytes lie in the archive as they are. Throws for methods that cannot be read.
bool is_stored(const ZipMember& member);

// Its bytes in place. `verify` reads them all, to compare their checksum.
Bytes stored_bytes(const ZipDirectory& directory, const ZipMember& member, bool verify);

// Checks that a compressed member can have the size that it is said to have, before memory is taken for it.
void check_claim(const ZipMember& member);

// Inflates a compressed member into as many bytes as it has, and compares their checksum.
void inflate_member(const ZipDirectory& directory, const ZipMember& member, std::span<std::uint8_t> into);

}  // namespace spdl
