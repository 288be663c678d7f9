# The quorum core, its names and renewals.
set(quorum_tests ${CMAKE_CURRENT_LIST_DIR})
add_library(quorum_cell OBJECT ${quorum_tests}/quorum_cell.c)
target_include_directories(quorum_cell PRIVATE ${PROJECT_SOURCE_DIR}/agent/core)
target_link_libraries(quorum_cell PRIVATE hf_core hf_flags PkgConfig::CHECK)
foreach(part names message heap acceptor session quorum shares queue takeover handover suspicion
        sync renewal succession pace log_limit members recover checkpoint cell full tries breaks)
    add_executable(test_${part} ${quorum_tests}/test_${part}.c)
    target_link_libraries(test_${part} PRIVATE hf_core hf_flags PkgConfig::CHECK)
    if(NOT part STREQUAL "names" AND NOT part STREQUAL "message" AND NOT part STREQUAL "heap")
        target_link_libraries(test_${part} PRIVATE quorum_cell)
    endif()
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan")
endforeach()

# test_full sets sequence numbers that no real cell reaches, and test_pace reads and sets rates of a
# clock. For this they need private headers, with the structs of modules.
foreach(part full pace)
    target_include_directories(test_${part} PRIVATE ${PROJECT_SOURCE_DIR}/agent/core)
endforeach()

# The core calls only mem* and the assertion hook. Sanitizers and coverage counters insert other
# calls, so such builds have no such test.
if(NOT HF_SANITIZE AND NOT HF_FUZZ AND NOT HF_COVERAGE)
    add_test(NAME core_is_pure
        COMMAND ${quorum_tests}/core_is_pure.sh ${CMAKE_NM} $<TARGET_FILE:hf_core>
            $<TARGET_FILE:hf_proto> $<TARGET_FILE:hf_text>)
    set_tests_properties(core_is_pure PROPERTIES LABELS "unit")
endif()

# Tests of the record of voters. They have a rig of their own, because the voters' indexes change.
add_executable(test_voters ${quorum_tests}/test_voters.c ${quorum_tests}/voters_asks.c
    ${quorum_tests}/voters_rig.c)
target_link_libraries(test_voters PRIVATE hf_core hf_flags PkgConfig::CHECK)
add_test(NAME voters COMMAND test_voters)
add_executable(test_completion ${quorum_tests}/test_completion.c ${quorum_tests}/voters_asks.c
    ${quorum_tests}/voters_rig.c)
target_link_libraries(test_completion PRIVATE hf_core hf_flags PkgConfig::CHECK)
add_test(NAME completion COMMAND test_completion)
set_tests_properties(completion PROPERTIES LABELS "unit;asan")
add_executable(test_joining ${quorum_tests}/test_joining.c ${quorum_tests}/voters_asks.c
    ${quorum_tests}/voters_rig.c)
target_link_libraries(test_joining PRIVATE hf_core hf_flags PkgConfig::CHECK)
add_test(NAME joining COMMAND test_joining)
set_tests_properties(joining PROPERTIES LABELS "unit;asan")
add_executable(test_newcomers ${quorum_tests}/test_newcomers.c ${quorum_tests}/voters_rig.c)
target_link_libraries(test_newcomers PRIVATE hf_core hf_flags PkgConfig::CHECK)
add_test(NAME newcomers COMMAND test_newcomers)
set_tests_properties(newcomers PROPERTIES LABELS "unit;asan")
add_executable(test_recover_cell ${quorum_tests}/test_recover_cell.c ${quorum_tests}/voters_rig.c)
target_link_libraries(test_recover_cell PRIVATE hf_core hf_flags PkgConfig::CHECK)
add_test(NAME recover_cell COMMAND test_recover_cell)
set_tests_properties(recover_cell PROPERTIES LABELS "unit;asan")
set_tests_properties(voters PROPERTIES LABELS "unit;asan")
