# Gossip: its bytes, the index of names, and whole cells of agents in virtual time.
set(gossip_tests ${CMAKE_CURRENT_LIST_DIR})
foreach(part gossip gossip_wire order)
    add_executable(test_${part} ${gossip_tests}/test_${part}.c)
    target_link_libraries(test_${part} PRIVATE hf_flags hf_core hf_proto PkgConfig::CHECK)
    set_target_properties(test_${part}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan" TIMEOUT 300)
endforeach()
target_sources(test_gossip_wire PRIVATE ${gossip_tests}/gossip_samples.c)
