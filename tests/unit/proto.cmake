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
target_sources(test_wire PRIVATE ${CMAKE_CURRENT_LIST_DIR}/wire_samples.c
    ${CMAKE_CURRENT_LIST_DIR}/gossip_samples.c)

# The lock word's protocol is built once more for each of these, with a hook before each atomic
# operation.
foreach(name lockqueue lockwatch lockpolled)
    add_executable(test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
        ${PROJECT_SOURCE_DIR}/proto/lockword.c ${PROJECT_SOURCE_DIR}/proto/lockwait.c
        ${PROJECT_SOURCE_DIR}/proto/lockagent.c)
    target_compile_options(test_${name} PRIVATE -include ${PROJECT_SOURCE_DIR}/tests/sim/shim.h
        ${HF_TEST_SUBJECT_OPTIONS})
    target_link_libraries(test_${name} PRIVATE hf_flags hf_proto PkgConfig::CHECK)
    set_target_properties(test_${name}
        PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND test_${name})
    set_tests_properties(${name} PROPERTIES LABELS "unit;asan" TIMEOUT 120)
endforeach()
