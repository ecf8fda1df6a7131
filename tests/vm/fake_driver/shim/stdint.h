/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAKE_STDINT_H
#define FAKE_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>
#include <linux/workqueue.h>

/* The card has a function of this name. */
#undef work_pending

typedef long intptr_t;

#define UINT16_MAX U16_MAX
#define UINT32_MAX U32_MAX
#define UINT64_MAX U64_MAX

#endif
