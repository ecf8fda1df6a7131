/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of users; one thread needs nothing atomic. */
#ifndef SHIM_REFCOUNT_H
#define SHIM_REFCOUNT_H

#include "types.h"

typedef struct {
	int count;
} refcount_t, atomic_t;

#define refcount_set(counter, value) ((counter)->count = (value))
#define refcount_inc(counter) ((counter)->count++)
#define refcount_dec_and_test(counter) (--(counter)->count == 0)
#define atomic_read(counter) ((counter)->count)
#define atomic_inc refcount_inc
#define atomic_dec(counter) ((counter)->count--)

struct rcu_head {
	int unused;
};

#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define kfree_rcu(pointer, head) free(pointer)

#endif
