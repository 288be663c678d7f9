# The effect of an agent on its machine, and agents of two builds in one cell.
if(TARGET holdfastd)
    add_cluster_test(idle_disk)
    add_cluster_test(cell_abuse)
    set_tests_properties(cluster_cell_abuse PROPERTIES LABELS "cluster" SKIP_RETURN_CODE 77)
    # With HOLDFAST_TEST_MINUTES these tests take an hour and more, and Check's own limits are
    # scaled with it.
    set_tests_properties(cluster_idle_disk cluster_cell_abuse PROPERTIES TIMEOUT 7200)
    # This test needs an agent of another build: tests/platform/trixie.sh runs it.
    add_cluster_test(cell_both)
    set_tests_properties(cluster_cell_both PROPERTIES SKIP_RETURN_CODE 77)
endif()
