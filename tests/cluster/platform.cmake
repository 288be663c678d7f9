# What an agent does to the machine it runs on, and what other agents' builds do to it.
if(TARGET holdfastd)
    add_cluster_test(idle_disk)
endif()
