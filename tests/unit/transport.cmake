# agent/io: packets between agents.
set(transport_tests ${CMAKE_CURRENT_LIST_DIR})
add_library(transport_rig OBJECT ${transport_tests}/transport_rig.c)
target_link_libraries(transport_rig
    PRIVATE hf_agent_io hf_flags PkgConfig::CHECK Threads::Threads)
foreach(part transport transport_tls transport_turns transport_versions)
    add_executable(test_${part} ${transport_tests}/test_${part}.c)
    target_link_libraries(test_${part}
        PRIVATE transport_rig hf_agent_io hf_flags PkgConfig::CHECK Threads::Threads)
    set_target_properties(test_${part}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan;tsan;sleeps" TIMEOUT 300)
endforeach()

# This test reads private fields of the transport: the count of accepts and the round of turns.
target_include_directories(test_transport_turns PRIVATE ${PROJECT_SOURCE_DIR}/agent)

# The same tests with NNG's own way of reading: no descriptor is ever found.
add_executable(test_transport_unfound ${transport_tests}/test_transport.c
    ${transport_tests}/transport_unfound.c)
target_link_libraries(test_transport_unfound
    PRIVATE transport_rig hf_agent_io hf_flags PkgConfig::CHECK Threads::Threads)
target_compile_definitions(test_transport_unfound PRIVATE TRANSPORT_UNFOUND)
target_link_options(test_transport_unfound PRIVATE -Wl,--wrap=transport_find_fd)
set_target_properties(test_transport_unfound
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME transport_unfound COMMAND test_transport_unfound)
set_tests_properties(transport_unfound PROPERTIES LABELS "unit;asan;tsan;sleeps" TIMEOUT 300)
