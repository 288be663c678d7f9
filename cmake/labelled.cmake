# The target `labelled` builds only the programs that the tests with the sanitizer's label run.
# ./dev test builds only this target with a sanitizer, and all targets without one.
if(HF_SANITIZE STREQUAL "thread")
    set(HF_LABEL tsan)
else()
    set(HF_LABEL asan)
endif()
add_custom_target(labelled)

# hf_labelled([TARGET...]): to be called at the end of a folder that has tests. For each test X of
# the folder that has the label, it adds the programs test_X and X. TARGET names the other programs
# that such tests run. If a program is missing here, its test cannot be started, and so fails.
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
