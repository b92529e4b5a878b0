# `cmake --install` and `cpack -G DEB`; docs/deploy-docker.md says what the packages hold.
#
# The build of preset cuda makes baton-cuda in the place of baton. Nothing here builds: install and pack a
# build folder whose programs are there.
include(GNUInstallDirs)
set(baton_package_files ${PROJECT_SOURCE_DIR}/deploy/package)

install(TARGETS baton baton-router baton-prefill baton-decode
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(FILES
    ${baton_package_files}/baton-router.service
    ${baton_package_files}/baton-prefill@.service
    ${baton_package_files}/baton-decode@.service
  DESTINATION lib/systemd/system COMPONENT programs)
install(FILES ${baton_package_files}/sysusers.conf
  DESTINATION lib/sysusers.d RENAME baton.conf COMPONENT programs)
if(BATON_CUDA)
  foreach(role prefill decode)
    install(FILES ${baton_package_files}/gpu.conf
      DESTINATION lib/systemd/system/baton-${role}@.service.d COMPONENT programs)
  endforeach()
endif()
# What the programs hold of others' work has to be told with them.
install(CODE "
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env CARGO=${CARGO_PROGRAM}
      python3 -B ${baton_package_files}/notices.py ${PROJECT_BINARY_DIR}
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT programs)

if(BATON_CUDA)
  set(baton_package_name baton-cuda)
  set(baton_other_package baton)
else()
  set(baton_package_name baton)
  set(baton_other_package baton-cuda)
endif()
install(FILES ${baton_package_files}/copyright ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    ${PROJECT_BINARY_DIR}/THIRD-PARTY ${PROJECT_BINARY_DIR}/crates.cdx.json
  DESTINATION share/doc/${baton_package_name} COMPONENT programs)

# Settings belong to the system whatever the prefix, so only a package brings them.
install(FILES
    ${baton_package_files}/router.toml
    ${baton_package_files}/prefill-1.toml
    ${baton_package_files}/decode-1.toml
  DESTINATION /etc/baton COMPONENT settings EXCLUDE_FROM_ALL)

set(demo_model ${PROJECT_SOURCE_DIR}/models/demo)
file(GLOB demo_model_files CONFIGURE_DEPENDS
  ${demo_model}/*.json ${demo_model}/*.jinja ${demo_model}/*.safetensors)
install(FILES ${demo_model_files} DESTINATION share/baton/models/demo COMPONENT model)
install(FILES ${baton_package_files}/copyright DESTINATION share/doc/baton-demo-model COMPONENT model)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baton)
set(CPACK_PACKAGE_CONTACT "The Baton authors <baton@example.org>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL programs settings model)
foreach(component programs settings)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENT_${upper}_GROUP service)
endforeach()
set(CPACK_COMPONENT_MODEL_GROUP demo)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_SERVICE_PACKAGE_NAME ${baton_package_name})
set(CPACK_DEBIAN_SERVICE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_SERVICE_PACKAGE_CONFLICTS ${baton_other_package})
set(CPACK_DEBIAN_SERVICE_PACKAGE_REPLACES ${baton_other_package})
set(CPACK_DEBIAN_SERVICE_PACKAGE_RECOMMENDS "systemd, ca-certificates")
set(CPACK_DEBIAN_SERVICE_PACKAGE_SUGGESTS baton-demo-model)
set(CPACK_DEBIAN_SERVICE_PACKAGE_CONTROL_EXTRA
  ${baton_package_files}/conffiles ${baton_package_files}/postinst ${baton_package_files}/prerm
  ${baton_package_files}/postrm)
set(CPACK_DEBIAN_SERVICE_DESCRIPTION
"LLM inference as a router, prefill workers and decode workers
Long prompts are read by workers of their own, so that they do not hold up
answers that are being written. The EOS probability of every step is recorded,
and foresees when answers end.")

set(CPACK_DEBIAN_DEMO_PACKAGE_NAME baton-demo-model)
set(CPACK_DEBIAN_DEMO_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEMO_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEMO_DESCRIPTION
"small language model to try Baton with
It has 3.7 million parameters, tells small stories and answers questions about
a small world.")
include(CPack)
