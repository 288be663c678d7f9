# The history of cluster tests: recording and checking it.
add_executable(test_history ${CMAKE_CURRENT_SOURCE_DIR}/test_history.c
    ${PROJECT_SOURCE_DIR}/tests/cluster/history.c)
target_link_libraries(test_history PRIVATE hf_flags PkgConfig::CHECK)
add_test(NAME history COMMAND test_history)
set_tests_properties(history PROPERTIES LABELS "unit;asan")
