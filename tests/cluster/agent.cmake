# Tests of one agent: clients that break the rules, and the agent's starts and ends.
if(TARGET holdfastd)
    foreach(name hostile daemon flood rubbish borrowed closer shared_memory spoilt begun_anew account
                 life costly page_never_comes pidfds rings sleepers subuids
                 mappings kept_locks own_folder remover unread which_agent guard_deaths why users ended
                 leftovers small)
        add_cluster_test(${name})
    endforeach()
    target_link_libraries(test_cluster_hostile PRIVATE hf_proto)
    target_link_libraries(test_cluster_begun_anew PRIVATE hf_proto)
    add_dependencies(test_cluster_begun_anew holdfast_faults)
    add_library(holdfast_accounts MODULE accounts_preload.c)
    set_target_properties(holdfast_accounts
        PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(holdfast_accounts PRIVATE hf_flags)
    add_dependencies(test_cluster_users holdfast_accounts)
    target_link_libraries(test_cluster_flood PRIVATE hf_proto)
    target_link_libraries(test_cluster_spoilt PRIVATE hf_proto)
    target_link_libraries(test_cluster_account PRIVATE hf_proto)
    target_link_libraries(test_cluster_life PRIVATE hf_proto)
    target_link_libraries(test_cluster_costly PRIVATE hf_proto)
    target_link_libraries(test_cluster_pidfds PRIVATE hf_proto)
    target_link_libraries(test_cluster_page_never_comes PRIVATE hf_proto)
    target_link_libraries(test_cluster_rings PRIVATE hf_proto)
    target_link_libraries(test_cluster_sleepers PRIVATE hf_proto)
    target_link_libraries(test_cluster_unread PRIVATE hf_proto)
    target_link_libraries(test_cluster_borrowed PRIVATE hf_proto)
    set_tests_properties(cluster_page_never_comes cluster_kept_locks cluster_own_folder
        cluster_small
        PROPERTIES
        SKIP_RETURN_CODE 77)
    target_link_libraries(test_cluster_daemon PRIVATE hf_agent_io)
    target_link_libraries(test_cluster_closer PRIVATE hf_agent_io)
    target_link_libraries(test_cluster_remover PRIVATE hf_agent_io)
    # These tests look at the agent's memory and timing, which ThreadSanitizer changes.
    set_tests_properties(cluster_hostile cluster_daemon cluster_closer PROPERTIES LABELS "cluster;asan")
    # A rolling upgrade of a whole cell, and an agent that finds a region of another layout.
    add_cluster_test(upgrade)
    target_link_libraries(test_cluster_upgrade PRIVATE hf_proto)
endif()
