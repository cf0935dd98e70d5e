// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: what a whole process must remember of its run.
#pragma once

namespace bora {

/// True once an operation was given up with messages still under way.  The run cannot end well then
/// (MPI could not even be finalised: it would wait for them), so the session ends by an abort.
bool run_broken();
void mark_run_broken();

/// Longest wait for the other ranks at the end of the run, seconds: the time limit that a
/// communicator was given last, as make_communicator and set_timeout note it here.
double wait_limit();
void set_wait_limit(double seconds);

}  // namespace bora
