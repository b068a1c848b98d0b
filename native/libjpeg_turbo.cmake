# Finds libjpeg-turbo as the target spdl_libjpeg, and sets SPDL_OWN_ENTROPY to whether it is the pinned one, whose private
# structures our own entropy decoder knows. SPDL_LIBJPEG_TURBO chooses:
#   PINNED  the pinned one, which scripts/bundle/libjpeg_turbo.sh builds from its source, or has built before
#   AUTO    the same, or if that fails, the system's
#   SYSTEM  the one that pkg-config finds
#   BUNDLE  the same, which is the pinned one: scripts/bundle/libraries.sh has built it for a wheel
set(SPDL_LIBJPEG_TURBO AUTO CACHE STRING "The libjpeg-turbo to build with: AUTO, PINNED, SYSTEM or BUNDLE")
set_property(CACHE SPDL_LIBJPEG_TURBO PROPERTY STRINGS AUTO PINNED SYSTEM BUNDLE)
if(NOT SPDL_LIBJPEG_TURBO MATCHES "^(AUTO|PINNED|SYSTEM|BUNDLE)$")
    message(FATAL_ERROR "SPDL_LIBJPEG_TURBO must be AUTO, PINNED, SYSTEM or BUNDLE, got ${SPDL_LIBJPEG_TURBO}")
endif()

add_library(spdl_libjpeg INTERFACE)
set(SPDL_OWN_ENTROPY OFF)
if(SPDL_LIBJPEG_TURBO STREQUAL "BUNDLE")
    set(SPDL_OWN_ENTROPY ON)
elseif(NOT SPDL_LIBJPEG_TURBO STREQUAL "SYSTEM")
    set(spdl_bundle "${CMAKE_CURRENT_LIST_DIR}/../scripts/bundle")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
        "${spdl_bundle}/libjpeg_turbo.sh" "${spdl_bundle}/sources.txt")
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env "CMAKE=${CMAKE_COMMAND}" "CMAKE_GENERATOR=${CMAKE_GENERATOR}"
            "CMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" bash "${spdl_bundle}/libjpeg_turbo.sh"
        RESULT_VARIABLE spdl_failed OUTPUT_VARIABLE spdl_prefix ERROR_VARIABLE spdl_words
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(spdl_failed STREQUAL "0")
        set(SPDL_OWN_ENTROPY ON)
        message(STATUS "libjpeg-turbo: ${spdl_prefix}")
        target_include_directories(spdl_libjpeg SYSTEM INTERFACE "${spdl_prefix}/include")
        target_link_libraries(spdl_libjpeg INTERFACE "${spdl_prefix}/lib/libjpeg.a")
        if(SKBUILD_METADATA_DIR)
            install(DIRECTORY "${spdl_prefix}/notices/libjpeg-turbo"
                DESTINATION "${SKBUILD_METADATA_DIR}/licenses/third_party")
        endif()
        return()
    endif()
    if(SPDL_LIBJPEG_TURBO STREQUAL "PINNED")
        message(FATAL_ERROR "cannot build libjpeg-turbo: ${spdl_words}")
    endif()
    message(WARNING "building on the system's libjpeg-turbo, on which JPEG is decoded a quarter slower, because the "
        "pinned one cannot be built: ${spdl_words}")
endif()

# The first release of libjpeg-turbo 2.1.
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg>=2.1)
target_link_libraries(spdl_libjpeg INTERFACE PkgConfig::JPEG)
