# The installed package: target nandex::nandex.
if(NOT TARGET nandex::nandex)
  get_filename_component(nandex_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(nandex::nandex STATIC IMPORTED)
  set_target_properties(nandex::nandex PROPERTIES
    IMPORTED_LOCATION "${nandex_prefix}/lib/libnandex_c.a"
    INTERFACE_INCLUDE_DIRECTORIES "${nandex_prefix}/include")
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set_property(TARGET nandex::nandex PROPERTY INTERFACE_LINK_LIBRARIES pthread dl m)
  endif()
endif()
