// SPDX-License-Identifier: Apache-2.0
/* Stops an engine between two calls, so that another one can take over, and resumes it if that one does not. */
#define _GNU_SOURCE
#include "engine.h"
#include "worker.h"

u32 cgpud_pause(struct cgpud *d, u32 ms)
{
	u32 left = workers_stop(d, ms);

	/* Workers first: theirs is the time that a container can take. */
	if (!left)
		left = sharing_stop(d, ms) + reaper_pause(d, ms);
	return left;
}

int cgpud_resume(struct cgpud *d)
{
	int r;

	workers_resume(d);
	r = reaper_start(d);
	return r < 0 ? r : sharing_start(d);
}

void cgpud_sums(struct cgpud *d, struct cgpud_sums *sums)
{
	struct cgpu_container_info info;
	struct cgpu_instance_info instance;
	u32 at, gpu;

	memset(sums, 0, sizeof(*sums));
	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1) {
		sums->containers++;
		for (gpu = 0; gpu < d->driver.gpus; gpu++) {
			if (cgpu_instance_info(&d->core, info.slot, info.generation, gpu, &instance) < 0)
				continue;
			sums->promised += instance.memsize;
			sums->charged += instance.charged;
		}
	}
	for (gpu = 0; gpu < d->driver.gpus; gpu++)
		sums->charged += cgpu_gpu_orphaned(&d->core, gpu);
}

int cgpud_listener_fd(struct cgpud *d, u64 serial)
{
	struct listener *one = listener_find(&d->listeners, serial);
	int fd = one ? one->fd : -ENOENT;

	if (one)
		listener_put(&d->listeners, one);
	return fd;
}

int cgpud_state_fd(const struct cgpud *d)
{
	return d->in_flight.fd;
}

int cgpud_files_fd(const struct cgpud *d)
{
	return d->files.epoll;
}

int cgpud_state_check(s32 state_fd)
{
	return state_file_can_take(state_fd);
}

void cgpud_state_give_up(s32 state_fd)
{
	state_file_give_up(state_fd);
}
