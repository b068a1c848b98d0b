#!/usr/bin/env bash
# Builds the wheel for one Python, installs it with only the test tools into a new environment, and runs tests there
# without a compiler on PATH. SPDL_TEST_NEIGHBOURS may name further packages to install beside it, and SPDL_TEST_WHEEL a
# wheel that is already built.
# Usage: scripts/test_wheel.sh PYTHON [PYTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly python=${1:?usage: scripts/test_wheel.sh PYTHON [PYTEST_ARGUMENT...]}
shift

say() { printf 'spdl test: %s\n' "$*"; }

version=$("$python" -c 'import sys, sysconfig as s
print("%d.%d%s" % (*sys.version_info[:2], "t" if s.get_config_var("Py_GIL_DISABLED") else ""))')
readonly version environment=build/test-$version
[[ $version == *t ]] && group=test-free-threaded || group=test

wheel=${SPDL_TEST_WHEEL:-$(scripts/bundle/wheel.sh "$python")}
say "testing ${wheel##*/} on Python $version"
rm -rf "$environment"
"$python" -m venv "$environment"
read -r -a neighbours <<<"${SPDL_TEST_NEIGHBOURS:-}"
# --group came with pip 25.1.
"$environment/bin/python" -m pip install --quiet --quiet --upgrade 'pip>=25.1'
"$environment/bin/python" -m pip install --quiet --quiet --only-binary :all: --group "$group" "$wheel[demo]" \
  "${neighbours[@]}"

# Compilers share the system's folders of commands with tools that the tests need. Link all but compilers here.
readonly commands=$environment/commands
mkdir "$commands"
for command in /usr/local/bin/* /usr/bin/* /bin/*; do
  case ${command##*/} in
    cc | c++ | gcc* | g++* | clang* | c89* | c99* | *-linux-gnu-g++* | *-linux-gnu-gcc* | cmake | ninja | make | nasm) ;;
    *) [[ -L $commands/${command##*/} ]] || ln -s "$command" "$commands/" ;;
  esac
done

# Tests use this compiler to build a driver that stands in for CUDA's. Nothing else should find it.
SPDL_TEST_CC=$(command -v cc || true)
export SPDL_TEST_CC
PATH=$PWD/$environment/bin:$PWD/$commands SPDL_WHEEL=$(realpath "$wheel") \
  "$environment/bin/python" -m pytest "$@"
