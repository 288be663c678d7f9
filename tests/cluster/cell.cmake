# Cells of several hosts under faults, in network namespaces.
if(TARGET holdfastd)
    foreach(name cell_deaths cell_links cell_disk cell_flush cell_traps cell_begun_anew cell_breaks
        cell_hostile cell_members)
        add_cluster_test(${name})
        set_tests_properties(cluster_${name} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
    add_test(NAME cluster_cell_member_kills COMMAND test_cluster_cell_members kills)
    set_tests_properties(cluster_cell_member_kills PROPERTIES
        LABELS "cluster" TIMEOUT 900 COST 270 SKIP_RETURN_CODE 77
        ENVIRONMENT "HOLDFAST_BIN_DIR=${CMAKE_BINARY_DIR}/bin;CK_TIMEOUT_MULTIPLIER=3")
    target_link_libraries(test_cluster_cell_begun_anew PRIVATE hf_proto)
    target_link_libraries(test_cluster_cell_hostile PRIVATE hf_proto)
    target_link_libraries(test_cluster_cell_flush PRIVATE PkgConfig::SQLITE)
    add_dependencies(test_cluster_cell_flush holdfast_faults)
    # All faults, for half a minute. ./dev torture runs for the time that its option sets.
    add_executable(torture torture.c torture_round.c torture_faults.c torture_members.c)
    set_target_properties(torture PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(torture PRIVATE hf_flags cluster_harness PkgConfig::SQLITE)
    add_dependencies(torture holdfastd holdfast_faults)
    set(faults)
    if(CMAKE_CROSSCOMPILING) # qemu has no such switch, and needs memory and descriptors itself
        set(faults --only "kill,terminate,stop,kill-worker,stop-worker,isolate,one-way,lose,\
stall-disk,slow-disk,flush-error,write-error,full-disk,kill-all,roll,upgrade,members,clock")
    endif()
    add_test(NAME cluster_torture COMMAND torture --seconds 30 --rounds 1 ${faults})
    set_tests_properties(cluster_torture PROPERTIES
        LABELS "cluster" TIMEOUT 900 COST 40 SKIP_RETURN_CODE 77
        ENVIRONMENT "HOLDFAST_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
endif()
