# The agent's own modules: configuration, log, the order of the driver's work.
set(agent_tests ${CMAKE_CURRENT_LIST_DIR})
add_library(driver_rig OBJECT ${agent_tests}/driver_rig.c)
target_link_libraries(driver_rig PRIVATE hf_agent hf_flags PkgConfig::CHECK)
foreach(part respite rings stuck wake subids client_record commit config profile accounts files log judgement metrics page driver driver_order driver_record addresses alive)
    add_executable(test_${part} ${agent_tests}/test_${part}.c)
    target_link_libraries(test_${part} PRIVATE hf_agent hf_flags PkgConfig::CHECK)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan;tsan")
endforeach()
target_link_libraries(test_driver_order PRIVATE driver_rig)
target_link_libraries(test_driver_record PRIVATE driver_rig)
target_sources(test_page PRIVATE ${agent_tests}/page_samples.c)
# The samples as files, for ./dev page.
add_executable(page_samples EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/browser/page_samples.c
    ${agent_tests}/page_samples.c)
target_link_libraries(page_samples PRIVATE hf_agent hf_flags)
add_dependencies(page_samples holdfastd holdfast_cli)
set_target_properties(page_samples PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(part metrics page)
    target_compile_definitions(test_${part}
        PRIVATE HF_METRICS_PAGE="${PROJECT_SOURCE_DIR}/docs/METRICS.md")
endforeach()
# The turns of the socket's users: agent/io/socket/socket.c in a loop of the test.
add_executable(test_socket_turns ${agent_tests}/test_socket_turns.c)
target_link_libraries(test_socket_turns PRIVATE hf_agent_io hf_flags PkgConfig::CHECK PkgConfig::UV)
add_test(NAME socket_turns COMMAND test_socket_turns)
set_target_properties(test_socket_turns
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(socket_turns PROPERTIES LABELS "unit;asan")
