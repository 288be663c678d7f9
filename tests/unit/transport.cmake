# agent/io: packets between agents.
add_executable(test_transport ${CMAKE_CURRENT_LIST_DIR}/test_transport.c)
target_link_libraries(test_transport PRIVATE hf_agent_io hf_flags PkgConfig::CHECK Threads::Threads)
set_target_properties(test_transport PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME transport COMMAND test_transport)
set_tests_properties(transport PROPERTIES LABELS "unit;asan;tsan" TIMEOUT 300)
