# THE table of images. One line an image: name, compute capability it runs on (exactly; "-" = the host), nvcc target,
# oldest nvcc that can build it, oldest driver (its CUDA version, as cuDriverGetVersion gives it) that can run it when
# built with CUDA 12.9, and what else its sources include. A toolkit of a newer major raises the driver to its own
# major: core compares and names both. Adding an architecture starts here (CONTRIBUTING.md).
#
#      name    capability  target  nvcc   driver  headers
set(FP4AOT_IMAGE_TABLE
      "cpu     -           -       -      0       -"
      "sm90a   9.0         90a     12.9   12000   -"
      "sm100a  10.0        100a    12.9   12080   cutlass"
      "sm103a  10.3        103a    12.9   12090   cutlass"
      "sm120a  12.0        120a    12.9   12080   cutlass"
)

# fp4aot_image_field(<out> <image> <field index>): one field of the table; an error for an unknown image.
function(fp4aot_image_field out image index)
  foreach(line IN LISTS FP4AOT_IMAGE_TABLE)
    string(REGEX REPLACE " +" ";" fields "${line}")
    list(GET fields 0 name)
    if(name STREQUAL image)
      list(GET fields ${index} value)
      set(${out} "${value}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  fp4aot_image_names(names)
  list(JOIN names ", " names)
  message(FATAL_ERROR "FP4AOT_IMAGES names '${image}', which is not an image. Known: ${names}; or 'auto', 'all'.")
endfunction()

function(fp4aot_image_names out)
  set(names)
  foreach(line IN LISTS FP4AOT_IMAGE_TABLE)
    string(REGEX REPLACE " .*" "" name "${line}")
    list(APPEND names "${name}")
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# fp4aot_image_table_header(<file>): the table as core's FP4AOT_IMAGE_TABLE.
function(fp4aot_image_table_header file)
  set(entries)
  foreach(line IN LISTS FP4AOT_IMAGE_TABLE)
    string(REGEX REPLACE " +" ";" fields "${line}")
    list(GET fields 0 name)
    list(GET fields 1 capability)
    list(GET fields 4 driver)
    if(capability STREQUAL "-")
      set(capability "-1.-1")
    endif()
    string(REPLACE "." ", " capability "${capability}")
    list(APPEND entries "{\"${name}\", ${capability}, ${driver}}")
  endforeach()
  list(JOIN entries ", \\\n  " entries)
  file(CONFIGURE OUTPUT ${file} CONTENT "// Generated from cmake/images.cmake.\n#define FP4AOT_IMAGE_TABLE \\\n  @entries@\n" @ONLY)
endfunction()
