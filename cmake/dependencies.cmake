# What the project links, found through pkg-config. Targets to link:
#   PkgConfig::MSGPACK PkgConfig::UV PkgConfig::INIH PkgConfig::SQLITE PkgConfig::SECCOMP,
#   PkgConfig::CHECK (tests),
#   hf_nng (without pkg-config).
find_package(PkgConfig)
set(hf_missing "")
if(NOT PKG_CONFIG_FOUND)
    list(APPEND hf_missing pkg-config)
endif()

# hf_need(PREFIX MODULE...): the first module that exists becomes PkgConfig::PREFIX.
macro(hf_need prefix)
    if(PKG_CONFIG_FOUND)
        pkg_search_module(${prefix} QUIET IMPORTED_TARGET ${ARGN})
    endif()
    if(NOT ${prefix}_FOUND)
        string(REPLACE ";" " or " hf_names "${ARGN}")
        list(APPEND hf_missing "${hf_names}")
    endif()
endmacro()

hf_need(MSGPACK msgpack-c msgpack) # Debian 13 calls it msgpack-c, Debian 12 msgpack
# Debian 13's .pc file has an include folder without a prefix, and the compiler finds /usr/include
# anyway.
if(MSGPACK_FOUND)
    get_target_property(hf_msgpack_includes PkgConfig::MSGPACK INTERFACE_INCLUDE_DIRECTORIES)
    if(hf_msgpack_includes)
        list(FILTER hf_msgpack_includes INCLUDE REGEX "^/")
        set_target_properties(PkgConfig::MSGPACK
            PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${hf_msgpack_includes}")
    endif()
endif()
hf_need(UV libuv)
hf_need(INIH inih)
hf_need(SQLITE sqlite3)
hf_need(SECCOMP libseccomp)
hf_need(CURSES ncursesw) # its headers alone: cli/top_curses.h
if(HF_TESTS)
    hf_need(CHECK check)
endif()

# NNG has no pkg-config file.
find_path(NNG_INCLUDE_DIR nng/nng.h)
find_library(NNG_LIBRARY NAMES nng)
# The library that NNG uses for TLS: the agent checks certificates with it before it gives them to
# NNG.
set(HF_TLS_LIBRARIES "")
if(HOLDFAST_TLS)
    find_library(MBEDX509_LIBRARY NAMES mbedx509)
    find_library(MBEDCRYPTO_LIBRARY NAMES mbedcrypto)
    set(HF_TLS_LIBRARIES ${MBEDX509_LIBRARY} ${MBEDCRYPTO_LIBRARY})
    if(NOT MBEDX509_LIBRARY OR NOT MBEDCRYPTO_LIBRARY)
        list(APPEND hf_missing "mbedtls (or -DHOLDFAST_TLS=OFF)")
    endif()
endif()
if(NNG_INCLUDE_DIR AND NNG_LIBRARY)
    add_library(hf_nng INTERFACE)
    target_include_directories(hf_nng SYSTEM INTERFACE ${NNG_INCLUDE_DIR})
    target_link_libraries(hf_nng INTERFACE ${NNG_LIBRARY} ${HF_TLS_LIBRARIES})
else()
    list(APPEND hf_missing nng)
endif()

if(hf_missing)
    list(JOIN hf_missing "\n    " hf_missing)
    message(FATAL_ERROR "Needed to build Holdfast, and not found:\n    ${hf_missing}\n"
            "./dev build installs all of it (the file `packages` lists the Debian packages), "
            "then configures and builds.")
endif()

# Probes for tracers (proto/probe.h); without the header there are none.
include(CheckIncludeFile)
check_include_file(sys/sdt.h HF_HAVE_SDT)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
