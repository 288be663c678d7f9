# What an agent does to the machine it runs on, and agents of two builds in one cell.
if(TARGET holdfastd)
    add_cluster_test(idle_disk)
    add_cluster_test(cell_abuse)
    set_tests_properties(cluster_cell_abuse PROPERTIES LABELS "cluster" SKIP_RETURN_CODE 77)
    # With HOLDFAST_TEST_MINUTES they take an hour and more; Check's own limits go with that.
    set_tests_properties(cluster_idle_disk cluster_cell_abuse PROPERTIES TIMEOUT 7200)
    # Needs another build's agent: tests/platform/trixie.sh runs it.
    add_cluster_test(cell_both)
    set_tests_properties(cluster_cell_both PROPERTIES SKIP_RETURN_CODE 77)
endif()
