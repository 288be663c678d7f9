# libclient/: against an agent of the tests' own (lib_agent.c).
add_library(lib_agent OBJECT ${CMAKE_CURRENT_LIST_DIR}/lib_agent.c)
target_link_libraries(lib_agent
    PRIVATE hf_flags holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
target_include_directories(lib_agent PRIVATE ${PROJECT_SOURCE_DIR}/libclient)
foreach(part calls events agent threads interface rings)
    add_executable(test_lib_${part} ${CMAKE_CURRENT_LIST_DIR}/test_lib_${part}.c)
    target_link_libraries(test_lib_${part}
        PRIVATE hf_flags lib_agent holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
    set_target_properties(test_lib_${part}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_include_directories(test_lib_${part} PRIVATE ${PROJECT_SOURCE_DIR}/libclient)
    add_test(NAME lib_${part} COMMAND test_lib_${part})
    set_tests_properties(lib_${part} PROPERTIES LABELS "unit;asan;tsan;sleeps" TIMEOUT 300)
endforeach()

if(NOT HF_SANITIZE) # a sanitizer's runtime is one more library
    add_test(NAME lib_exports
        COMMAND ${CMAKE_CURRENT_LIST_DIR}/lib_exports.sh
            $<TARGET_FILE:holdfast_shared> ${PROJECT_SOURCE_DIR}/include/holdfast/holdfast.h
            ${PROJECT_SOURCE_DIR}/include/holdfast/admin.h)
    set_tests_properties(lib_exports PROPERTIES LABELS "unit")
endif()

add_executable(test_lib_guard ${CMAKE_CURRENT_LIST_DIR}/test_lib_guard.cpp)
target_link_libraries(test_lib_guard
    PRIVATE hf_flags lib_agent holdfast_static hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
set_target_properties(test_lib_guard
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME lib_guard COMMAND test_lib_guard)
set_tests_properties(lib_guard PROPERTIES LABELS "unit;asan;tsan" TIMEOUT 120)
