# proto/: names, frames, sequencers, packets between agents.
foreach(module ending frame listed name sequencer wire)
    add_executable(test_${module} ${CMAKE_CURRENT_LIST_DIR}/test_${module}.c)
    target_link_libraries(test_${module}
        PRIVATE hf_flags hf_proto PkgConfig::CHECK PkgConfig::MSGPACK)
    set_target_properties(test_${module}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${module} COMMAND test_${module})
    set_tests_properties(${module} PROPERTIES LABELS "unit;asan" TIMEOUT 120)
endforeach()
target_sources(test_frame PRIVATE ${CMAKE_CURRENT_LIST_DIR}/frame_samples.c)
target_sources(test_listed PRIVATE ${CMAKE_CURRENT_LIST_DIR}/frame_samples.c)
target_sources(test_wire PRIVATE ${CMAKE_CURRENT_LIST_DIR}/wire_samples.c)

# The lock word's protocol is built a second time, with a hook before each atomic operation.
add_executable(test_lockqueue ${CMAKE_CURRENT_LIST_DIR}/test_lockqueue.c
    ${PROJECT_SOURCE_DIR}/proto/lockword.c ${PROJECT_SOURCE_DIR}/proto/lockwait.c
    ${PROJECT_SOURCE_DIR}/proto/lockagent.c)
target_compile_options(test_lockqueue PRIVATE -include ${PROJECT_SOURCE_DIR}/tests/sim/shim.h)
target_link_libraries(test_lockqueue PRIVATE hf_flags hf_proto PkgConfig::CHECK)
set_target_properties(test_lockqueue
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME lockqueue COMMAND test_lockqueue)
set_tests_properties(lockqueue PROPERTIES LABELS "unit;asan" TIMEOUT 120)
