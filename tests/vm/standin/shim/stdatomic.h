/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STANDIN_STDATOMIC_H
#define STANDIN_STDATOMIC_H

#include <linux/atomic.h>

typedef atomic_t atomic_uint;

#endif
