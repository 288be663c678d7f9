# The quorum core, its names and renewals, and the store under them.
set(quorum_tests ${CMAKE_CURRENT_LIST_DIR})
foreach(part names message acceptor session quorum shares queue takeover sweep renewal members checkpoint cell)
    set(sources ${quorum_tests}/test_${part}.c)
    if(NOT part STREQUAL "names" AND NOT part STREQUAL "message")
        list(APPEND sources ${quorum_tests}/quorum_cell.c)
    endif()
    add_executable(test_${part} ${sources})
    target_link_libraries(test_${part} PRIVATE hf_core hf_flags PkgConfig::CHECK)
    add_test(NAME ${part} COMMAND test_${part})
    set_tests_properties(${part} PROPERTIES LABELS "unit;asan;tsan")
endforeach()

add_executable(test_store ${quorum_tests}/test_store.c)
target_link_libraries(test_store PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store COMMAND test_store)
add_executable(test_store_files ${quorum_tests}/test_store_files.c)
target_link_libraries(test_store_files PRIVATE hf_agent_io hf_flags PkgConfig::CHECK)
add_test(NAME store_files COMMAND test_store_files)
set_tests_properties(store store_files PROPERTIES LABELS "unit;asan;tsan")

# The core calls nothing but mem* and the assertion hook. Sanitizers insert calls of their own.
if(NOT HF_SANITIZE AND NOT HF_FUZZ)
    add_test(NAME core_is_pure
        COMMAND ${quorum_tests}/core_is_pure.sh ${CMAKE_NM} $<TARGET_FILE:hf_core>
            $<TARGET_FILE:hf_proto>)
    set_tests_properties(core_is_pure PROPERTIES LABELS "unit")
endif()
