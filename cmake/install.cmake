# What `cmake --install` installs, and where. holdfast.pc is made twice: one in the build folder,
# for programs that are built with the uninstalled library, and one that is installed.
list(TRANSFORM MSGPACK_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE HF_PC_PRIVATE)
list(JOIN HF_PC_PRIVATE " " HF_PC_PRIVATE)

set(HF_PC_PREFIX ${CMAKE_BINARY_DIR})
set(HF_PC_LIBDIR ${CMAKE_BINARY_DIR}/lib)
set(HF_PC_INCLUDEDIR ${CMAKE_SOURCE_DIR}/include)
set(HF_PC_RPATH "-Wl,-rpath,\${libdir} ")
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/lib/pkgconfig/holdfast.pc @ONLY)

# The installed one finds its prefix from its own path, so that --prefix and staging work.
set(HF_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(HF_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
foreach(dir HF_PC_LIBDIR HF_PC_INCLUDEDIR)
    if(NOT IS_ABSOLUTE ${${dir}})
        set(${dir} "\${prefix}/${${dir}}")
    endif()
endforeach()
file(RELATIVE_PATH HF_PC_UP ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" HF_PC_UP "${HF_PC_UP}")
set(HF_PC_PREFIX "\${pcfiledir}/${HF_PC_UP}")
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
