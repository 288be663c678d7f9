# What `cmake --install` installs, and where. holdfast.pc is made twice: one in the build folder,
# for programs that are built with the uninstalled library, and one that is installed.
list(TRANSFORM MSGPACK_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE HF_PC_PRIVATE)
list(JOIN HF_PC_PRIVATE " " HF_PC_PRIVATE)

set(HF_PC_PREFIX ${CMAKE_BINARY_DIR})
set(HF_PC_LIBDIR ${CMAKE_BINARY_DIR}/lib)
set(HF_PC_INCLUDEDIR ${CMAKE_SOURCE_DIR}/include)
set(HF_PC_RPATH "-Wl,-rpath,\${libdir} ")
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/lib/pkgconfig/holdfast.pc @ONLY)

# The installed holdfast.pc finds its prefix from its own path, so that --prefix and staging work.
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

foreach(target holdfastd holdfast_cli)
    if(TARGET ${target})
        install(TARGETS ${target})
    endif()
endforeach()
if(TARGET holdfast_shared AND TARGET holdfast_static)
    install(TARGETS holdfast_shared holdfast_static EXPORT holdfast)
    install(DIRECTORY include/holdfast TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
    install(FILES ${CMAKE_BINARY_DIR}/install/holdfast.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

    # For find_package(holdfast).
    set(HF_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
    set_target_properties(holdfast_shared PROPERTIES EXPORT_NAME holdfast)
    set_target_properties(holdfast_static PROPERTIES EXPORT_NAME static)
    install(EXPORT holdfast NAMESPACE holdfast:: FILE holdfastTargets.cmake
            DESTINATION ${HF_CMAKE_DIR})
    include(CMakePackageConfigHelpers)
    configure_file(cmake/holdfastConfig.cmake.in ${CMAKE_BINARY_DIR}/install/holdfastConfig.cmake
                   @ONLY)
    write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/holdfastConfigVersion.cmake
                                     COMPATIBILITY SameMajorVersion)
    install(FILES ${CMAKE_BINARY_DIR}/install/holdfastConfig.cmake
                  ${CMAKE_BINARY_DIR}/install/holdfastConfigVersion.cmake
            DESTINATION ${HF_CMAKE_DIR})
endif()
install(FILES README.md CHANGELOG.md LICENSE TYPE DOC)

# A new library in a folder that the dynamic linker knows is found once ldconfig has run. Only root
# can run it, and a staged installation (DESTDIR) must not.
install(CODE "
    if(\"\$ENV{DESTDIR}\" STREQUAL \"\" AND EXISTS /sbin/ldconfig)
        execute_process(COMMAND /sbin/ldconfig -v -N -X OUTPUT_VARIABLE known ERROR_QUIET)
        if(known MATCHES \"(^|\\n)\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}:\")
            execute_process(COMMAND /sbin/ldconfig RESULT_VARIABLE status ERROR_QUIET)
            if(NOT status EQUAL 0)
                message(WARNING \"Run ldconfig as root: until then programs do not find \"
                    \"libholdfast.so.0\")
            endif()
        endif()
    endif()")
