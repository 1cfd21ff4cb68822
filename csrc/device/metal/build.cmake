# The Metal device: Objective-C++ on Apple silicon (macOS 14 or later), and with MUSER_METAL_SIM against the stand-in
# headers of tests/metal_sim, whose library is loaded at run time. Everywhere else two functions that say why not.
set(METAL_DEVICE ${PROJECT_SOURCE_DIR}/csrc/device/metal)
if(APPLE AND CMAKE_SYSTEM_PROCESSOR MATCHES "arm64|aarch64")
  set(MUSER_METAL ON)
else()
  set(MUSER_METAL ${MUSER_METAL_SIM})
endif()

if(NOT MUSER_METAL)
  target_sources(muser_core PRIVATE ${METAL_DEVICE}/no_metal.cpp)
  return()
endif()

enable_language(OBJCXX)
set(CMAKE_OBJCXX_STANDARD 20)
file(GLOB METAL_HOST CONFIGURE_DEPENDS ${METAL_DEVICE}/*.mm)
file(GLOB METAL_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/metal/*)
set(METAL_EMBEDDED ${CMAKE_CURRENT_BINARY_DIR}/metal_sources.cpp)
add_custom_command(OUTPUT ${METAL_EMBEDDED}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/metal -DOUT=${METAL_EMBEDDED} -P ${METAL_DEVICE}/embed.cmake
  DEPENDS ${METAL_KERNELS} ${METAL_DEVICE}/embed.cmake VERBATIM)
target_sources(muser_core PRIVATE ${METAL_HOST} ${METAL_DEVICE}/sources.cpp ${METAL_EMBEDDED})
set_source_files_properties(${METAL_HOST} PROPERTIES LANGUAGE OBJCXX)
target_compile_options(muser_core PRIVATE $<$<COMPILE_LANGUAGE:OBJCXX>:-fobjc-arc>)
if(MUSER_METAL_SIM)
  set(METAL_SIM ${PROJECT_SOURCE_DIR}/tests/metal_sim/fake/include)
  target_compile_options(muser_core PRIVATE $<$<COMPILE_LANGUAGE:OBJCXX>:-fblocks -fobjc-runtime=gnustep-2.0
    -fconstant-string-class=NSConstantString -isystem ${METAL_SIM}>)
else()
  target_link_libraries(muser_core PUBLIC "-framework Metal" "-framework Foundation")
endif()
