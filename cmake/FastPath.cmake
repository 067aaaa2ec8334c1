# The extension module fp4aot._torch_fast: ops called without torch's dispatcher. It is optional: without it (or where its
# import fails) every call is dispatched. One binary for every Python from 3.10 on (limited API, so an abi3 module) and every
# torch, linked to neither's Python library.

execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('include'))"
                OUTPUT_VARIABLE python_include OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT EXISTS ${python_include}/Python.h)
  message(STATUS "fp4aot: no Python.h in ${python_include}, so the ops' fast path is not built (calls take 1 to 2 us more). "
                 "Fix: install this Python's headers (such as python3-dev)")
  return()
endif()
message(STATUS "fp4aot: fast path of the torch ops with ${python_include}")
file(GLOB fast_sources CONFIGURE_DEPENDS src/cpp/python/*.cpp)
add_library(fp4aot_torch_fast SHARED ${fast_sources})
target_compile_definitions(fp4aot_torch_fast PRIVATE TORCH_TARGET_VERSION=0x020a000000000000 Py_LIMITED_API=0x030a0000)
target_include_directories(fp4aot_torch_fast PRIVATE src/cpp)
target_include_directories(fp4aot_torch_fast SYSTEM PRIVATE ${torch}/include ${python_include})
target_link_libraries(fp4aot_torch_fast PRIVATE fp4aot ${torch}/lib/libtorch_cpu.so ${CMAKE_DL_LIBS})
fp4aot_configure_library(fp4aot_torch_fast "PyInit__torch_fast")
set_target_properties(fp4aot_torch_fast PROPERTIES PREFIX "" OUTPUT_NAME _torch_fast SUFFIX .abi3.so
                      INSTALL_RPATH "$ORIGIN/lib")
install(TARGETS fp4aot_torch_fast LIBRARY DESTINATION .)
