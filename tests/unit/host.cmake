# The host core, between a fake quorum and fake sockets.
set(host_tests ${CMAKE_CURRENT_LIST_DIR})
foreach(part host_rig host_cell)
    add_library(${part} OBJECT ${host_tests}/${part}.c)
    target_link_libraries(${part} PRIVATE hf_flags hf_core hf_proto PkgConfig::CHECK)
endforeach()
foreach(part host host_cell host_others host_ends host_gossip host_notes host_hostile host_kept host_delays
        host_repair host_regions host_openings host_tries host_endings host_breaks host_polled
        host_record)
    add_executable(test_${part} ${host_tests}/test_${part}.c)
    target_link_libraries(test_${part}
        PRIVATE hf_flags host_rig hf_core hf_proto PkgConfig::CHECK)
    set_target_properties(test_${part}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan" TIMEOUT 120)
endforeach()
foreach(part host_cell host_others host_breaks host_kept host_delays host_regions host_tries
        host_record)
    target_link_libraries(test_${part} PRIVATE host_cell)
endforeach()
foreach(part host_ends host_repair)
    target_include_directories(test_${part} PRIVATE ${PROJECT_SOURCE_DIR}/agent/core)
endforeach()
set_tests_properties(host_hostile PROPERTIES LABELS "fuzz;asan")
