/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_MUTEX_H
#define SHIM_MUTEX_H

struct mutex {
	int unused;
};

#endif
