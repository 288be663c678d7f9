# Cells of several hosts under faults, in network namespaces.
if(TARGET holdfastd)
    foreach(name cell_deaths cell_links cell_disk cell_mix cell_traps)
        add_cluster_test(${name})
        set_tests_properties(cluster_${name} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
endif()
