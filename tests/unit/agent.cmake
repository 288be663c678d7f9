# The agent's own parts: configuration, log, the order of what the driver does.
set(agent_tests ${CMAKE_CURRENT_LIST_DIR})
foreach(part commit config log metrics driver driver_order places)
    add_executable(test_${part} ${agent_tests}/test_${part}.c)
    target_link_libraries(test_${part} PRIVATE hf_agent hf_flags PkgConfig::CHECK)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan;tsan")
endforeach()
target_compile_definitions(test_metrics
    PRIVATE HF_METRICS_PAGE="${PROJECT_SOURCE_DIR}/docs/METRICS.md")
