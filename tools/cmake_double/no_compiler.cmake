# Toolchain for staging: nothing is compiled, so no compiler has to be there. CMake itself stands in for one.
set(CMAKE_SYSTEM_NAME Generic)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER ${CMAKE_COMMAND})
  set(CMAKE_${language}_COMPILER_ID Double)
  set(CMAKE_${language}_COMPILER_ID_RUN TRUE)
  set(CMAKE_${language}_COMPILER_FORCED TRUE)
endforeach()
