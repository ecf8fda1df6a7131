/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAKE_STDATOMIC_H
#define FAKE_STDATOMIC_H

#include <linux/atomic.h>

typedef atomic_t atomic_uint;

#endif
