# Finds the libraries that decode pictures and inflate archives as the target spdl_pictures, and sets SPDL_PINNED_LIBRARIES,
# also for the compiler, if they are the pinned ones: our own entropy decoder knows private structures of that libjpeg-turbo.
# SPDL_PICTURE_LIBRARIES chooses:
#   PINNED    the pinned ones, which scripts/bundle/picture_libraries.sh builds from their sources, or has built before
#   AUTO      the same, or if that fails, the system's
#   SYSTEM    those that pkg-config finds
#   a folder  the pinned ones, which are built there: scripts/bundle/libraries.sh does so for a wheel
set(SPDL_PICTURE_LIBRARIES AUTO CACHE STRING
    "The libraries that decode pictures: AUTO, PINNED, SYSTEM or the folder of those that are built")
set(spdl_prefix "")
if(IS_DIRECTORY "${SPDL_PICTURE_LIBRARIES}")
    set(spdl_prefix "${SPDL_PICTURE_LIBRARIES}")
elseif(NOT SPDL_PICTURE_LIBRARIES MATCHES "^(AUTO|PINNED|SYSTEM)$")
    message(FATAL_ERROR
        "SPDL_PICTURE_LIBRARIES must be AUTO, PINNED, SYSTEM or a folder, got ${SPDL_PICTURE_LIBRARIES}")
elseif(NOT SPDL_PICTURE_LIBRARIES STREQUAL "SYSTEM")
    set(spdl_bundle "${CMAKE_CURRENT_LIST_DIR}/../scripts/bundle")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
        "${spdl_bundle}/picture_libraries.sh" "${spdl_bundle}/library.sh" "${spdl_bundle}/places.sh"
        "${spdl_bundle}/sources.txt")
    set(spdl_ninja "")
    if(CMAKE_GENERATOR MATCHES "Ninja")
        set(spdl_ninja "NINJA=${CMAKE_MAKE_PROGRAM}")
    endif()
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env "CMAKE=${CMAKE_COMMAND}" ${spdl_ninja}
            bash "${spdl_bundle}/picture_libraries.sh"
        RESULT_VARIABLE spdl_failed OUTPUT_VARIABLE spdl_prefix ERROR_VARIABLE spdl_words
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT spdl_failed STREQUAL "0")
        if(SPDL_PICTURE_LIBRARIES STREQUAL "PINNED")
            message(FATAL_ERROR "cannot build the libraries that decode pictures: ${spdl_words}")
        endif()
        message(WARNING "building on the system's libraries, by which JPEG is decoded a quarter slower and other pictures "
            "may differ, because the pinned ones cannot be built: ${spdl_words}")
        set(spdl_prefix "")
    elseif(SKBUILD_METADATA_DIR)
        install(DIRECTORY "${spdl_prefix}/notices/" DESTINATION "${SKBUILD_METADATA_DIR}/licenses/third_party")
    endif()
endif()

add_library(spdl_pictures INTERFACE)
set(SPDL_PINNED_LIBRARIES OFF)
if(spdl_prefix)
    message(STATUS "libraries that decode pictures: ${spdl_prefix}")
    set(SPDL_PINNED_LIBRARIES ON)
    target_compile_definitions(spdl_pictures INTERFACE SPDL_PINNED_LIBRARIES)
    target_include_directories(spdl_pictures SYSTEM INTERFACE
        "${spdl_prefix}/include" "${spdl_prefix}/include/openjpeg-2.5")
    # Each stands before what it needs.
    foreach(library avif dav1d yuv webpdemux webpdecoder openjp2 tiff jpeg zstd deflate z)
        # Shared in a wheel, dav1d is static otherwise, as all others are.
        find_library(spdl_library ${library} PATHS "${spdl_prefix}/lib" NO_DEFAULT_PATH NO_CACHE REQUIRED)
        target_link_libraries(spdl_pictures INTERFACE "${spdl_library}")
        unset(spdl_library)
    endforeach()
    if(NOT IS_DIRECTORY "${SPDL_PICTURE_LIBRARIES}")
        # The system's FFmpeg has others of the same names, which a program's would take the place of.
        target_link_options(spdl_pictures INTERFACE LINKER:--exclude-libs,ALL)
    endif()
else()
    # Those of Debian 12; of libjpeg-turbo, the first release of 2.1; of the last two, those of Debian 11.
    pkg_check_modules(PICTURES REQUIRED IMPORTED_TARGET
        libjpeg>=2.1 libwebp>=1.2 libwebpdemux>=1.2 libavif>=0.11 libopenjp2>=2.5 libtiff-4>=4.5 libdeflate>=1.10
        libzstd>=1.4)
    target_link_libraries(spdl_pictures INTERFACE PkgConfig::PICTURES)
endif()
