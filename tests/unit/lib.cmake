# libclient/, with an agent that the tests play (lib_agent.c).
add_library(lib_agent OBJECT ${CMAKE_CURRENT_LIST_DIR}/lib_agent.c)
target_link_libraries(lib_agent
    PRIVATE hf_flags holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
target_include_directories(lib_agent PRIVATE ${PROJECT_SOURCE_DIR}/libclient)
foreach(part calls events agent threads interface rings starts why ended failure backup note)
    add_executable(test_lib_${part} ${CMAKE_CURRENT_LIST_DIR}/test_lib_${part}.c)
    target_link_libraries(test_lib_${part}
        PRIVATE hf_flags lib_agent holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
    set_target_properties(test_lib_${part}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_include_directories(test_lib_${part} PRIVATE ${PROJECT_SOURCE_DIR}/libclient)
    add_test(NAME lib_${part} COMMAND test_lib_${part})
    set_tests_properties(lib_${part} PROPERTIES LABELS "unit;asan;tsan;sleeps" TIMEOUT 300)
endforeach()
# These tests call functions of libclient that the library does not export, so they link libclient's
# objects directly. The linker then takes nothing from the static library.
foreach(part agent events failure)
    target_sources(test_lib_${part} PRIVATE $<TARGET_OBJECTS:holdfast_objects>)
endforeach()
# Its calloc() can fail.
target_link_options(test_lib_failure PRIVATE -Wl,--wrap=calloc)

# A later version of the library, whose structs have more fields, for a program of today: see
# test_lib_grown.c.
if(NOT HF_SANITIZE)
    set(grown ${CMAKE_BINARY_DIR}/grown)
    foreach(header holdfast.h admin.h)
        add_custom_command(OUTPUT ${grown}/include/holdfast/${header}
            COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/grow.awk
                ${PROJECT_SOURCE_DIR}/include/holdfast/${header}
                > ${grown}/include/holdfast/${header}
            DEPENDS ${PROJECT_SOURCE_DIR}/include/holdfast/${header}
                ${CMAKE_CURRENT_LIST_DIR}/grow.awk
            VERBATIM)
    endforeach()
    file(MAKE_DIRECTORY ${grown}/include/holdfast)
    get_target_property(parts holdfast_objects SOURCES)
    list(TRANSFORM parts PREPEND ${PROJECT_SOURCE_DIR}/libclient/)
    add_library(holdfast_grown SHARED ${parts}
        ${grown}/include/holdfast/holdfast.h ${grown}/include/holdfast/admin.h)
    target_include_directories(holdfast_grown BEFORE PRIVATE ${grown}/include)
    target_compile_definitions(holdfast_grown PRIVATE HFI_RESERVED=0xa5)
    target_link_libraries(holdfast_grown PRIVATE hf_flags hf_proto PkgConfig::MSGPACK)
    target_link_options(holdfast_grown PRIVATE
        LINKER:--version-script=${PROJECT_SOURCE_DIR}/libclient/holdfast.map)
    set_target_properties(holdfast_grown PROPERTIES
        OUTPUT_NAME holdfast SOVERSION 0 LIBRARY_OUTPUT_DIRECTORY ${grown})
    add_executable(test_lib_grown ${CMAKE_CURRENT_LIST_DIR}/test_lib_grown.c)
    target_link_libraries(test_lib_grown
        PRIVATE hf_flags lib_agent holdfast_shared hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
    set_target_properties(test_lib_grown
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_dependencies(test_lib_grown holdfast_grown)
    add_test(NAME lib_today COMMAND test_lib_grown)
    add_test(NAME lib_grown COMMAND test_lib_grown)
    set_tests_properties(lib_today PROPERTIES LABELS unit ENVIRONMENT HF_GROWN=0)
    set_tests_properties(lib_grown PROPERTIES LABELS unit
        ENVIRONMENT "HF_GROWN=1;LD_LIBRARY_PATH=${grown}")
endif()

if(NOT HF_SANITIZE) # a sanitizer's runtime is one more library
    add_test(NAME lib_exports
        COMMAND ${CMAKE_CURRENT_LIST_DIR}/lib_exports.sh
            $<TARGET_FILE:holdfast_shared> ${PROJECT_SOURCE_DIR}/include/holdfast/holdfast.h
            ${PROJECT_SOURCE_DIR}/include/holdfast/admin.h)
    set_tests_properties(lib_exports PROPERTIES LABELS "unit")
endif()

add_executable(test_lib_guard ${CMAKE_CURRENT_LIST_DIR}/test_lib_guard.cpp)
target_link_libraries(test_lib_guard
    PRIVATE hf_flags lib_agent holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK
        Threads::Threads)
set_target_properties(test_lib_guard
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME lib_guard COMMAND test_lib_guard)
set_tests_properties(lib_guard PROPERTIES LABELS "unit;asan;tsan" TIMEOUT 120)
