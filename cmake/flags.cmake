# How every target is compiled. Every target of this project links `hf_flags` PRIVATE, except
# agent/core, which links `hf_flags_core`. hf_flags_core leaves out the hardening with which the
# compiler calls functions that the source does not call (__stack_chk_fail, __memcpy_chk). A test
# checks that the core calls only mem* and the assertion's hook.
include(CheckCCompilerFlag)

add_library(hf_flags_common INTERFACE)
add_library(hf_flags INTERFACE)
add_library(hf_flags_core INTERFACE)
target_link_libraries(hf_flags INTERFACE hf_flags_common)
target_link_libraries(hf_flags_core INTERFACE hf_flags_common)
target_compile_definitions(hf_flags_common INTERFACE _GNU_SOURCE HF_VERSION="${PROJECT_VERSION}")
target_compile_options(hf_flags_common INTERFACE
    -Wall -Wextra -Werror -Wvla -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough
    -Wformat=2 -Wno-format-nonliteral
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    -fvisibility=hidden -fno-common)
if(HF_HAVE_SDT)
    target_compile_definitions(hf_flags_common INTERFACE HF_HAVE_SDT=1)
endif()
if(HOLDFAST_TLS)
    target_compile_definitions(hf_flags_common INTERFACE HF_HAVE_TLS=1)
endif()
if(HOLDFAST_HTTP)
    target_compile_definitions(hf_flags_common INTERFACE HF_HAVE_HTTP=1)
endif()

# Hardening. FORTIFY_SOURCE stays off in a Debug build, and under the sanitizers, which check the
# same and more. The explicit -fno-stack-protector is for distributions whose gcc has the stack
# protector on by default.
target_compile_options(hf_flags_core INTERFACE -fno-stack-protector)
target_compile_options(hf_flags INTERFACE -fstack-protector-strong)
check_c_compiler_flag(-fstack-clash-protection HF_STACK_CLASH)
if(HF_STACK_CLASH)
    target_compile_options(hf_flags_common INTERFACE -fstack-clash-protection)
endif()
check_c_compiler_flag(-fcf-protection HF_CF_PROTECTION)
if(HF_CF_PROTECTION)
    target_compile_options(hf_flags_common INTERFACE -fcf-protection)
endif()
if(NOT HF_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(hf_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
target_link_options(hf_flags_common INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)

# The sanitizers go to every target at once: their runtimes do not mix with uninstrumented code.
if(HF_SANITIZE)
    add_compile_options(-fsanitize=${HF_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HF_SANITIZE})
    add_compile_definitions(HF_SANITIZED=1)
    # -O1 compiles in 60 % of the time of -O2. Only a fuzzer, which runs for hours, is worth -O2.
    # -g1 is what a sanitizer's report needs: functions and lines.
    if(NOT HF_FUZZ)
        add_compile_options(-O1 -g1)
    endif()
    # All folders but the cores and the simulator have code that mostly waits. They are built with
    # -O0, which compiles in 60 % of the time of -O1. ThreadSanitizer is an exception, because with
    # -O0 it would watch each local variable.
    if(NOT HF_FUZZ AND NOT HF_SANITIZE STREQUAL "thread")
        set(HF_WAITING_OPTIONS -O0)
    endif()
    # With a sanitizer gcc warns about paths that only its own instrumentation creates. The release
    # build keeps this warning.
    add_compile_options($<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# With HF_FUZZ a target fuzz_X (tests/fuzz/) is linked with -fsanitize=fuzzer, and all other targets
# are only instrumented for it. Without HF_FUZZ a target fuzz_X is linked with a main() that replays
# its corpus.
if(HF_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# For ./dev coverage: counts each line and branch that runs, in all threads.
if(HF_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()
