# What `cmake --install` puts where, and holdfast.pc twice: in the build folder for programs that
# are built against it uninstalled, and the one that is installed.
list(TRANSFORM MSGPACK_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE HF_PC_PRIVATE)
list(JOIN HF_PC_PRIVATE " " HF_PC_PRIVATE)

set(HF_PC_PREFIX ${CMAKE_BINARY_DIR})
set(HF_PC_LIBDIR ${CMAKE_BINARY_DIR}/lib)
set(HF_PC_INCLUDEDIR ${CMAKE_SOURCE_DIR}/include)
set(HF_PC_RPATH "-Wl,-rpath,\${libdir} ")
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/lib/pkgconfig/holdfast.pc @ONLY)

set(HF_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
set(HF_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
set(HF_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(HF_PC_RPATH "")
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/install/holdfast.pc @ONLY)

foreach(target holdfastd holdfast_cli holdfast_static holdfast_shared)
    if(TARGET ${target})
        install(TARGETS ${target})
    endif()
endforeach()
if(TARGET holdfast_shared OR TARGET holdfast_static)
    install(DIRECTORY include/holdfast TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
    install(FILES ${CMAKE_BINARY_DIR}/install/holdfast.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
install(FILES README.md CHANGELOG.md LICENSE TYPE DOC)
