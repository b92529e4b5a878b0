#include "tests/fakes/fake_nccl/fake_nccl_path.h"

namespace baton {

std::string FakeNcclPath() { return BATON_FAKE_NCCL_PATH; }

}  // namespace baton
