// SPDX-License-Identifier: Apache-2.0
// The commands of unet3d: each takes what stands behind its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "comm/mpi.hpp"

namespace bora::unet3d {

int train_command(MpiSession& session, const std::vector<std::string>& args);
int evaluate_command(MpiSession& session, const std::vector<std::string>& args);
int predict_command(MpiSession& session, const std::vector<std::string>& args);
int export_command(MpiSession& session, const std::vector<std::string>& args);
int import_command(MpiSession& session, const std::vector<std::string>& args);
int report_command(MpiSession& session, const std::vector<std::string>& args);
int diagnose_command(MpiSession& session, const std::vector<std::string>& args);
int data_command(MpiSession& session, const std::vector<std::string>& args);
int data_convert_command(MpiSession& session, const std::vector<std::string>& args);
int info_command(MpiSession& session, const std::vector<std::string>& args);

}  // namespace bora::unet3d
