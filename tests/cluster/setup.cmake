# `holdfast setup`: its files start agents.
if(TARGET holdfastd)
    add_test(NAME cluster_setup
             COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/setup.sh ${CMAKE_BINARY_DIR}/bin)
    set_tests_properties(cluster_setup PROPERTIES LABELS "cluster" TIMEOUT 900)
endif()
