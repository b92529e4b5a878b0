#include "tests/fakes/fake_nccl/fake_nccl_access.h"

#include <dlfcn.h>

#include "common/base/check.h"

namespace baton {

std::string FakeNcclPath() { return BATON_FAKE_NCCL_PATH; }

void SetFakeNcclScript(const std::string& script) {
  // Loaded until the process ends, as NcclLibrary does.
  void* const library = dlopen(BATON_FAKE_NCCL_PATH, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  BATON_CHECK(library != nullptr) << dlerror();
  void* const set = dlsym(library, "BatonSetFakeNcclScript");
  BATON_CHECK(set != nullptr) << "the fake library takes no script";
  reinterpret_cast<void (*)(const char*)>(set)(script.c_str());
  dlclose(library);
}

}  // namespace baton
