# The command: its modules, and the whole command as a process, with the library of cli_fake.c.
find_package(Threads REQUIRED)
add_library(cli_fake OBJECT ${CMAKE_CURRENT_LIST_DIR}/cli_fake.c
    ${CMAKE_CURRENT_LIST_DIR}/cli_fake_admin.c)
target_include_directories(cli_fake PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(cli_fake PRIVATE hf_flags)

add_executable(holdfast_cli_fake ${PROJECT_SOURCE_DIR}/cli/main.c)
target_compile_options(holdfast_cli_fake PRIVATE ${HF_TEST_SUBJECT_OPTIONS})
target_link_libraries(holdfast_cli_fake
    PRIVATE hf_flags holdfast_cli_objects cli_fake Threads::Threads)

foreach(part parts setup top_rows)
    add_executable(test_cli_${part} ${CMAKE_CURRENT_LIST_DIR}/cli_${part}.c)
    target_link_libraries(test_cli_${part}
        PRIVATE hf_flags holdfast_cli_objects cli_fake PkgConfig::CHECK Threads::Threads)
endforeach()

add_library(cli_run OBJECT ${CMAKE_CURRENT_LIST_DIR}/cli_run.c)
target_compile_definitions(cli_run PRIVATE CLI_FAKE="$<TARGET_FILE:holdfast_cli_fake>")
target_link_libraries(cli_run PRIVATE hf_flags PkgConfig::CHECK)
foreach(part show doctor lock hold guard top why words member backup json)
    add_executable(test_cli_${part} ${CMAKE_CURRENT_LIST_DIR}/cli_${part}.c)
    target_compile_definitions(test_cli_${part}
        PRIVATE CLI_FAKE="$<TARGET_FILE:holdfast_cli_fake>")
    target_link_libraries(test_cli_${part} PRIVATE hf_flags cli_run PkgConfig::CHECK util)
    add_dependencies(test_cli_${part} holdfast_cli_fake)
endforeach()
target_link_libraries(test_cli_top PRIVATE hf_text)

set_target_properties(holdfast_cli_fake test_cli_parts test_cli_setup test_cli_top_rows
        test_cli_show test_cli_doctor test_cli_lock test_cli_hold test_cli_guard test_cli_top test_cli_why
        test_cli_words test_cli_member test_cli_backup test_cli_json
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(part parts setup top_rows show doctor lock hold guard top why words member backup json)
    add_test(NAME cli_${part} COMMAND test_cli_${part})
    set_tests_properties(cli_${part} PROPERTIES LABELS "unit;asan;sleeps" TIMEOUT 180)
endforeach()
# The commands with a second thread: waiting.c, and the rows of top.
foreach(part lock hold guard top why)
    set_tests_properties(cli_${part} PROPERTIES LABELS "unit;asan;tsan;sleeps")
endforeach()
