/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAKE_PTHREAD_H
#define FAKE_PTHREAD_H

#include <linux/mutex.h>

typedef struct mutex pthread_mutex_t;

#define pthread_mutex_lock(lock) mutex_lock(lock)
#define pthread_mutex_unlock(lock) mutex_unlock(lock)

#endif
