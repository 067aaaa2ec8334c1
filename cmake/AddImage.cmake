# fp4aot_add_image(<name>): builds libfp4aot_<name>.so from every source in src/cpp/images/<name>/, for exactly the
# target that images.cmake names. Per-ISA units of the cpu image carry their ISA in their file name.

function(fp4aot_add_image name)
  set(target fp4aot_${name})
  file(GLOB sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/src/cpp/images/${name}/*.cpp ${PROJECT_SOURCE_DIR}/src/cpp/images/${name}/*.cu)
  add_library(${target} SHARED ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/cpp ${PROJECT_SOURCE_DIR}/src/cpp/include)
  fp4aot_configure_library(${target} fp4aot_image)
  fp4aot_image_field(architecture ${name} 2)
  if(architecture STREQUAL "-")
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
    foreach(source IN LISTS sources)
      if(source MATCHES "_avx2\\.cpp$")
        set(isa -mavx2 -mfma -mf16c)
      elseif(source MATCHES "_avx512\\.cpp$")
        set(isa -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c)
      else()
        continue()
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;${isa}")
    endforeach()
    find_package(Threads REQUIRED)
    target_link_libraries(${target} PRIVATE Threads::Threads)
  else()
    # -real: machine code only. The wheel must hold no PTX, which a driver could compile for another chip.
    fp4aot_image_field(headers ${name} 5)
    set(for_units -lineinfo)
    if(headers STREQUAL "cutlass")
      # Line numbers would make the PTX six times as long; the host's part only launches.
      set(for_units -Xcompiler=-O1)
    endif()
    set_target_properties(${target} PROPERTIES
      CUDA_ARCHITECTURES ${architecture}-real CUDA_RUNTIME_LIBRARY None JOB_POOL_COMPILE cuda_pool LINKER_LANGUAGE CXX)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr ${for_units} -Xfatbin=-compress-all
        -Xcompiler=-Wall,-Wextra,-Werror,-fvisibility=hidden --Werror=all-warnings>)
    target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    if(headers STREQUAL "cutlass")
      # CUTLASS leaves programmatic dependent launch out without this, on every Blackwell target.
      fp4aot_find(cutlass cutlass)
      target_include_directories(${target} SYSTEM PRIVATE ${cutlass})
      target_compile_definitions(${target} PRIVATE CUTLASS_ENABLE_GDC_FOR_SM100)
    endif()
    target_link_libraries(${target} PRIVATE ${FP4AOT_CUDART_STATIC} rt pthread dl)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION lib)
endfunction()
