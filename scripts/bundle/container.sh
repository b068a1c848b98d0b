#!/usr/bin/env bash
# Makes what a wheel is built with, and links it where the settings of cibuildwheel can name it: they are read before
# anything is made.
# Usage: scripts/bundle/container.sh FOLDER
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly folder=${1:?usage: scripts/bundle/container.sh FOLDER}
# What the settings say of the wheel itself is not for the libraries.
unset CC CXX LD_LIBRARY_PATH PKG_CONFIG_LIBDIR
mkdir -p "$folder"
libraries=$("$bundle_scripts/libraries.sh") tools=$("$bundle_scripts/tools.sh") unwinder=$("$bundle_scripts/unwinder.sh")
ln -sfn "$libraries" "$folder/libraries"
ln -sfn "$tools" "$folder/tools"
ln -sfn "$unwinder" "$folder/libgcc_s.so.1"
