// SPDX-License-Identifier: Apache-2.0
// Linked into every program of a sanitizer build. MPI loads plugins and unloads them at the end; a
// leak found in an unloaded plugin has no name that a suppression could match. So nothing is
// unloaded.
extern "C" int dlclose(void* /*handle*/) { return 0; }
