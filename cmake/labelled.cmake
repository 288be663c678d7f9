# The target `labelled` builds what the tests with the sanitizer's label run, and nothing else: what
# ./dev test needs of a sanitizer's build. A plain build has everything.
if(HF_SANITIZE STREQUAL "thread")
    set(HF_LABEL tsan)
else()
    set(HF_LABEL asan)
endif()
add_custom_target(labelled)

# hf_labelled([TARGET...]): to be called at the end of a folder that has tests. It adds the programs
# test_X and X for each test X of the folder that has the label. If such tests run another program,
# it is named. A program that is missing here shows: its test cannot be started, and so has failed.
function(hf_labelled)
    if(NOT HF_SANITIZE)
        return()
    endif()
    get_property(tests DIRECTORY PROPERTY TESTS)
    foreach(test IN LISTS tests)
        get_property(labels TEST ${test} PROPERTY LABELS)
        if(HF_LABEL IN_LIST labels)
            foreach(target test_${test} ${test} ${ARGN})
                if(TARGET ${target})
                    add_dependencies(labelled ${target})
                endif()
            endforeach()
        endif()
    endforeach()
endfunction()
