# The tools of the comparison with other lock services: its histogram, its check of exclusion, its
# results, and the comparison of two runs.
add_executable(test_peers ${CMAKE_CURRENT_LIST_DIR}/test_peers.c)
target_include_directories(test_peers PRIVATE ${PROJECT_SOURCE_DIR}/tests/bench/peers)
target_link_libraries(test_peers PRIVATE hf_peers hf_flags PkgConfig::CHECK)
set_target_properties(test_peers PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME peers COMMAND test_peers)
set_tests_properties(peers PROPERTIES LABELS "unit;asan" TIMEOUT 180)
