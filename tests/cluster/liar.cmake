# A peer that lies to real agents. It writes packets as agents do.
if(TARGET holdfastd)
    add_cluster_test(liar)
    target_link_libraries(test_cluster_liar PRIVATE hf_core hf_proto)
    # A peer that lies about where other agents are.
    add_cluster_test(addresses)
    target_link_libraries(test_cluster_addresses PRIVATE hf_proto)
endif()
