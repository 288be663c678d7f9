# agent/io: the rights that the agent gives up. Not with sanitizers, which need further system
# calls.
add_executable(test_sandbox ${CMAKE_CURRENT_LIST_DIR}/test_sandbox.c)
target_link_libraries(test_sandbox PRIVATE hf_agent_io hf_flags PkgConfig::CHECK Threads::Threads)
set_target_properties(test_sandbox PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME sandbox COMMAND test_sandbox)
set_tests_properties(sandbox PROPERTIES LABELS "unit" TIMEOUT 120 SKIP_RETURN_CODE 77)
