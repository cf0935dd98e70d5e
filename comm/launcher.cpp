// SPDX-License-Identifier: Apache-2.0
// What the launchers' environment variables say, against what MPI says.
#include "comm/launcher.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace bora::detail {
namespace {

std::optional<long long> number(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (*end != '\0') return std::nullopt;
  return value;
}

// Ids from here on are not srun's: Slurm numbers the batch script and its helpers downwards from
// 2^32.
constexpr long long kFirstSpecialStep = 0xfffffff0LL;

}  // namespace

std::optional<long long> slurm_step_tasks(const EnvironmentLookup& lookup) {
  auto step = number(lookup("SLURM_STEP_ID"));
  if (!step) step = number(lookup("SLURM_STEPID"));
  if (!step || *step >= kFirstSpecialStep || !number(lookup("SLURM_PROCID"))) return std::nullopt;
  return number(lookup("SLURM_STEP_NUM_TASKS"));
}

bool has_launcher(const EnvironmentLookup& lookup) {
  return number(lookup("OMPI_COMM_WORLD_SIZE")) || number(lookup("PMI_SIZE")) ||
         slurm_step_tasks(lookup).has_value();
}

bool has_mpi_launcher(const EnvironmentLookup& lookup, bool speaks_pmi) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) {
      const char* text = lookup(name);
      return text != nullptr && *text != '\0';
    });
  };
  if (any({"BORA_TRANSPORT"})) {
    const std::string way = lookup("BORA_TRANSPORT");
    if (way != "mpi" && way != "tcp")
      throw UsageError(join("BORA_TRANSPORT='", way, "': wanted mpi or tcp"));
    return way == "mpi";
  }
  // srun --mpi=pmix, pmi2 and cray_shasta set their own; srun --mpi=none sets none of them.
  if (any({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"})) return true;
  const bool pmi = any({"PMI_SIZE", "PMI_RANK", "PMI_FD", "PMI_CONTROL_PORT", "PALS_RANKID"});
  return pmi && (speaks_pmi || !slurm_step_tasks(lookup));
}

std::string launcher_fault(int world_size, const EnvironmentLookup& lookup) {
  if (world_size != 1) return {};
  // The launcher nearest to the process decides: mpirun inside a Slurm step sees both kinds.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto size = number(lookup(name));
    if (!size) continue;
    if (*size <= 1) return {};
    return join("the launcher started ", *size, " processes (", name, "=", *size,
                "), but to MPI each of them is alone (world size 1): the launcher belongs to "
                "another MPI than the one this program was built with. Use the mpirun of that MPI "
                "(for Open MPI: mpirun.openmpi)");
  }
  const auto tasks = slurm_step_tasks(lookup);
  if (tasks && *tasks > 1)
    return join(
        "srun started ", *tasks, " tasks (SLURM_STEP_NUM_TASKS=", *tasks,
        "), but to MPI each of them is alone (world size 1): srun and this MPI do not speak "
        "the same protocol. Try srun --mpi=pmix (srun --mpi=list shows what there is), or "
        "mpirun inside the allocation");
  return {};
}

}  // namespace bora::detail
