# What every shared library of the wheel has in common: hidden symbols, warnings as errors, exports by a version script,
# and, with FP4AOT_GLIBC, a link for an older glibc than this machine's.

set(FP4AOT_GLIBC "" CACHE STRING "Link for this glibc (e.g. 2.28) through the ziglang package; empty: this machine's own")

if(FP4AOT_GLIBC)
  # Objects come from this machine's compiler; only the link decides which glibc symbol versions are asked for. libstdc++
  # is linked in, libgcc_s is not: a static copy would need _dl_find_object of glibc 2.35, and exceptions must cross
  # into torch.
  execute_process(COMMAND ${Python3_EXECUTABLE} -m ziglang version OUTPUT_VARIABLE zig_version ERROR_QUIET
                  RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "FP4AOT_GLIBC=${FP4AOT_GLIBC} needs the linker of the ziglang package. Fix: pip install ziglang==0.17.1")
  endif()
  message(STATUS "fp4aot: linking for glibc ${FP4AOT_GLIBC} with zig ${zig_version}")
  foreach(library libstdc++.a libgcc.a libgcc_s.so.1)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND gcc_libraries ${path})
  endforeach()
  list(JOIN gcc_libraries " " gcc_libraries)
  set(CMAKE_CXX_CREATE_SHARED_LIBRARY
    "<CMAKE_COMMAND> -E env ${Python3_EXECUTABLE} -m ziglang cc -fuse-ld=lld -target x86_64-linux-gnu.${FP4AOT_GLIBC} -shared -s <LINK_FLAGS> -Wl,-soname,<TARGET_SONAME> -o <TARGET> <OBJECTS> <LINK_LIBRARIES> ${gcc_libraries}")
endif()

# fp4aot_configure_library(<target> <exported symbol pattern>)
function(fp4aot_configure_library target exports)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.map CONTENT "{ global: ${exports}; local: *; };\n")
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
    INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  file(RELATIVE_PATH relative_source_dir ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  string(REGEX REPLACE "/$" "" relative_source_dir "${relative_source_dir}")
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
      -ffile-prefix-map=${relative_source_dir}=.>)  # absolute, and as ccache rewrites it
  # nodelete: threads of the cpu image and CUDA's registered kernels outlive any dlclose.
  target_link_options(${target} PRIVATE -Wl,-z,nodelete
    -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/${target}.map -Wl,--gc-sections -Wl,--build-id=none)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
endfunction()
