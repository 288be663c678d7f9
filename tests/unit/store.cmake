# The store: what is durable, and what files it makes.
add_executable(test_store ${CMAKE_CURRENT_LIST_DIR}/test_store.c)
target_link_libraries(test_store PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store COMMAND test_store)
add_executable(test_store_files ${CMAKE_CURRENT_LIST_DIR}/test_store_files.c)
target_link_libraries(test_store_files PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store_files COMMAND test_store_files)
set_tests_properties(store store_files PROPERTIES LABELS "unit;asan;tsan")
# It stands between SQLite and libc, where sanitizers stand too.
add_executable(test_store_flush ${CMAKE_CURRENT_LIST_DIR}/test_store_flush.c)
target_link_libraries(test_store_flush PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store_flush COMMAND test_store_flush)
set_tests_properties(store_flush PROPERTIES LABELS "unit")
# It traces the process that migrates, which a sanitizer's own would not stand.
add_executable(test_store_migrate ${CMAKE_CURRENT_LIST_DIR}/test_store_migrate.c)
target_link_libraries(test_store_migrate PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store_migrate COMMAND test_store_migrate)
set_tests_properties(store_migrate PROPERTIES LABELS "unit")
