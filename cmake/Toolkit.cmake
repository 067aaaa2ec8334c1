# Finds what toolchain.py knows how to find, and turns CUDA on when an image needs it. Tests' own projects include it too.

get_filename_component(FP4AOT_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

function(fp4aot_find out what)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${FP4AOT_ROOT}/cmake/toolchain.py ${what} ${ARGN}
                  OUTPUT_VARIABLE found ERROR_VARIABLE why RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${why}")
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# A macro: enable_language must run in the top-level scope.
macro(fp4aot_enable_cuda oldest)
  fp4aot_find(nvcc nvcc ${oldest})
  set(CMAKE_CUDA_COMPILER ${nvcc})
  get_filename_component(toolkit_root ${nvcc} REALPATH)
  get_filename_component(toolkit_root ${toolkit_root}/../.. ABSOLUTE)
  if(EXISTS ${toolkit_root}/lib/libcudart_static.a)
    # The PyPI toolkit keeps its libraries in lib, where nvcc does not look.
    set(CMAKE_CUDA_FLAGS_INIT "-L${toolkit_root}/lib")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # each image names its own
  set(CMAKE_CUDA_STANDARD 17)
  enable_language(CUDA)
  find_library(FP4AOT_CUDART_STATIC libcudart_static.a REQUIRED
               PATHS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} ${toolkit_root}/lib NO_DEFAULT_PATH)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${Python3_EXECUTABLE};${FP4AOT_ROOT}/cmake/nvcc_launcher.py;${FP4AOT_ROOT})

  # A CUTLASS unit takes up to 10 GB to compile, so that 16 GB allow one at a time and 24 GB two.
  cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR jobs "${memory_mb} / 10000")
  if(jobs GREATER cores)
    set(jobs ${cores})
  endif()
  if(jobs LESS 1)
    set(jobs 1)
  endif()
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS cuda_pool=${jobs})
  message(STATUS "fp4aot: nvcc ${CMAKE_CUDA_COMPILER_VERSION} (${nvcc}), ${jobs} unit(s) at a time")
endmacro()
