# What find_package(Slicer) gives an extension of scripted modules, without Slicer. Strict on purpose: everything that
# would go wrong late in a real build, or in a user's installation, stops the configuration here.
set(Slicer_FOUND TRUE)
set(Slicer_VERSION "5.12" CACHE STRING "MAJOR.MINOR of the Slicer to stage for: part of the installed paths")
set(Slicer_USE_FILE ${CMAKE_CURRENT_LIST_DIR}/UseSlicer.cmake)
set(Slicer_EXTENSION_GENERATE_CONFIG ${CMAKE_CURRENT_LIST_DIR}/GenerateConfig.cmake)
set(Slicer_EXTENSION_CPACK ${CMAKE_CURRENT_LIST_DIR}/CPack.cmake)
set(Slicer_QTSCRIPTEDMODULES_LIB_DIR lib/Slicer-${Slicer_VERSION}/qt-scripted-modules)
set(Slicer_INSTALL_QTSCRIPTEDMODULES_LIB_DIR ${Slicer_QTSCRIPTEDMODULES_LIB_DIR})
