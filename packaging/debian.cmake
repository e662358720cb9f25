# Debian packages: `cpack -G DEB` in the build folder makes hpplan and libhpplan-dev.
# Who builds them is their maintainer, named as Debian's own tools are told: $DEBFULLNAME and $DEBEMAIL.
set(maintainer "hpplan developers <hpplan@users.noreply.invalid>")
if(DEFINED ENV{DEBEMAIL})
  set(name "hpplan developers")
  if(DEFINED ENV{DEBFULLNAME})
    set(name "$ENV{DEBFULLNAME}")
  endif()
  set(maintainer "${name} <$ENV{DEBEMAIL}>")
endif()
set(HPPLAN_MAINTAINER "${maintainer}" CACHE STRING "Maintainer of the Debian packages: name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "planner for training on mixed accelerators")
set(CPACK_PACKAGE_CONTACT "${HPPLAN_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME hpplan)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "Decides how to train a transformer on accelerators of different kinds:
pipelines, stages, layers, parallelism and recomputation, so that one
optimizer step takes the least time.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libhpplan-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libyaml-cpp-dev, g++ (>= 4:12)")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Static libraries, headers and a CMake package of hpplan,
with an example program.")

# The licence is what the file of that name says; none there, none given.
set(license_name none-stated)
set(license_text " No licence comes with this version: no right to copy, change or pass it on is given.")
if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE)
  file(STRINGS ${PROJECT_SOURCE_DIR}/LICENSE lines)
  list(GET lines 0 license_name)
  string(REGEX REPLACE "[^A-Za-z0-9.+]+" "-" license_name "${license_name}")
  file(READ ${PROJECT_SOURCE_DIR}/LICENSE license_text)
  string(STRIP "${license_text}" license_text)
  string(REPLACE "\n\n" "\n.\n" license_text "${license_text}")
  string(REPLACE "\n" "\n " license_text " ${license_text}")
endif()

# The date of the release, as a changelog writes it.
string(REGEX MATCH "^[0-9]+" release_year ${HPPLAN_RELEASE_DATE})
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C date --utc --date=${HPPLAN_RELEASE_DATE} "+%a, %d %b %Y"
                OUTPUT_VARIABLE release_day OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(folder ${PROJECT_BINARY_DIR}/packaging)
configure_file(packaging/debian/copyright.in ${folder}/copyright @ONLY)
configure_file(packaging/debian/changelog.in ${folder}/changelog.Debian @ONLY)
if(HPPLAN_GZIP)
  execute_process(COMMAND ${HPPLAN_GZIP} -9n --keep --force ${folder}/changelog.Debian)
endif()

# Only a package has them: who installs elsewhere has the source.
foreach(pair runtime:hpplan development:libhpplan-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(CODE "
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      file(INSTALL ${folder}/copyright ${folder}/changelog.Debian.gz DESTINATION
           \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/${package}\")
    endif()" COMPONENT ${component})
endforeach()
include(CPack)
