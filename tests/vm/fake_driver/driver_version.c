// SPDX-License-Identifier: GPL-2.0-only
/* The only file that knows the version, in both modules: a build for another one is this and a link. */
#include <linux/module.h>

extern const char nvidia_version[];
const char nvidia_version[] = DRIVER_VERSION;

MODULE_VERSION(DRIVER_VERSION);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Fake NVIDIA driver, for the tests of OpenCGPU");
