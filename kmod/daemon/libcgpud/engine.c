// SPDX-License-Identifier: Apache-2.0
/* Opens, starts, pauses and closes an engine, and gives its status. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "cgroup.h"
#include "descriptors.h"
#include "engine.h"
#include "processes.h"
#include "supervise.h"
#include "worker.h"

static void core_lock(void *ctx)
{
	pthread_mutex_lock(&((struct cgpud *)ctx)->core_lock);
}

static void core_unlock(void *ctx)
{
	pthread_mutex_unlock(&((struct cgpud *)ctx)->core_lock);
}

static void core_log(void *ctx, int level, const char *line)
{
	struct events *events = &((struct cgpud *)ctx)->events;

	if (level == CGPU_LOG_EVENT)
		events_tell(events, "%s\n", line);
	else
		events_log(events, level, "%s", line);
}

static int core_cgroup_of(void *ctx, s32 pid, char *path, size_t bytes)
{
	(void)ctx;
	return cgroup_name(pid, path, bytes);
}

/* The process's cgroup decides. A cgroup of the whole machine says nothing, so that the ledger alone counts. */
static int core_process_in(void *ctx, s32 pid, u32 slot, u64 generation)
{
	struct cgpud *d = ctx;
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, slot, &info) < 0 || info.slot != slot || info.generation != generation)
		return 0;
	return cgroup_holds(info.cgroup, pid);
}

static void core_orphans(void *ctx)
{
	reaper_drop_orphans(ctx);
}

static void core_cards(void *ctx, u32 gpus)
{
	struct cgpud *d = ctx;
	u32 gpu, mig;

	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		/* A card that does not answer keeps its mode. */
		if ((gpus >> gpu & 1) && driver_gpu_mig(&d->driver, gpu, &mig) == 0)
			cgpu_gpu_set_mig(&d->core, gpu, mig);
	}
}

static int make_state(struct cgpu_state *state)
{
	u64 key;

	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		return -errno;
	cgpu_state_init(state, key);
	return 0;
}

/* r: result of the file's opening. */
static int open_state(struct cgpud *d, int r, char *error, size_t bytes)
{
	if (r == 0) {
		d->core.state = state_file_state(&d->in_flight);
		if (!d->in_flight.recovered)
			r = make_state(d->core.state);
		else
			files_recover(d);
	}
	if (r == 0)
		r = external_open(d, state_file_external(&d->in_flight));
	if (r < 0)
		snprintf(error, bytes, "the state of the engine before this one cannot be used: %s", strerror(-r));
	return r;
}

static int ask_gpus(struct cgpud *d, char *error, size_t bytes)
{
	u32 gpu, found = 0;
	u64 total;
	int r;

	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		r = driver_gpu_facts(&d->driver, gpu, &d->facts[gpu]);
		if (r == -ENXIO) {
			d->driver.gpu[gpu].away = 1;
			continue;
		}
		if (r < 0) {
			snprintf(error, bytes, "GPU %u: does not answer: %s", gpu, strerror(-r));
			return r;
		}
		found++;
		d->memfree[gpu] = d->facts[gpu].memtotal;
		driver_gpu_memory(&d->driver, gpu, &total, &d->memfree[gpu]);
	}
	if (found || !d->driver.gpus)
		return 0;
	snprintf(error, bytes, "no GPU of %u answers; why: the lines of NVRM in dmesg", d->driver.gpus);
	return -ENXIO;
}

/* A GPU that is away stays lost where the state of the engine before has it, and is left out where it has not. */
static int add_away(struct cgpud *d, u32 gpu)
{
	const struct driver_gpu *card = &d->driver.gpu[gpu];
	struct cgpu_gpu_facts known;

	if (cgpu_gpu_facts(&d->core, gpu, &known) < 0) {
		events_log(&d->events, LOG_LEVEL_ERROR,
			"GPU %u (/dev/nvidia%u): does not start, and is left out until this engine is started again; why: the "
			"lines of NVRM in dmesg",
			gpu, card->minor);
		return 0;
	}
	if (known.gpu_id != card->gpu_id)
		return -EEXIST;
	return cgpu_gpu_set_lost(&d->core, gpu, 1);
}

static int add_gpu(struct cgpud *d, u32 gpu)
{
	int r;

	if (d->driver.gpu[gpu].away)
		return add_away(d, gpu);
	r = cgpu_gpu_add(&d->core, &d->facts[gpu]);
	if (r == 0)
		cgpu_gpu_set_memfree(&d->core, gpu, d->memfree[gpu]);
	return r;
}

/* Asks the driver nothing: containers may wait. */
static int open_ledger(struct cgpud *d, const struct cgpu_settings *settings, char *error, size_t bytes)
{
	int r = cgpud_apply(d, settings);
	u32 gpu;

	if (r < 0)
		snprintf(error, bytes, "the settings are refused: %s", strerror(-r));
	for (gpu = 0; gpu < d->driver.gpus && r == 0; gpu++) {
		r = add_gpu(d, gpu);
		if (r < 0)
			snprintf(error, bytes, "GPU %u: cannot be added: %s", gpu, strerror(-r));
	}
	/* The driver does not list these GPUs of the engine before, as after the removal of a PCI device. */
	for (; gpu < CGPU_MAX_GPUS && r == 0; gpu++)
		cgpu_gpu_set_lost(&d->core, gpu, 1);
	return r;
}

static int open_driver(struct cgpud *d, const struct cgpud_options *o, char *error, size_t bytes)
{
	char path[256];
	int r = driver_open(&d->driver, o->driver_root, o->driver_rows, o->allow_unknown_driver, error, bytes);

	if (r < 0)
		return r;
	d->core.abi = d->driver.abi;
	d->core.abi_source = d->driver.source;
	snprintf(path, sizeof(path), "%s/nvidiactl", o->driver_root);
	r = devices_add(&d->devices, path, -1, CGPU_DEVICE_CTL, 0);
	if (r == 0)
		r = driver_find_gpus(&d->driver, o->driver_root, &d->devices, error, bytes);
	if (r < 0)
		return r;
	devices_find_others(&d->devices, o->driver_root);
	return ask_gpus(d, error, bytes);
}

/* Only exports need this: the engine opens without it. */
static void open_files(struct cgpud *d, int fd)
{
	int r = files_open(&d->files, fd);

	if (r < 0)
		events_log(&d->events, LOG_LEVEL_WARNING, "memory cannot be exported: open files cannot be watched: %s",
			strerror(-r));
}

static void check_pagemap(struct cgpud *d)
{
	if (atomic_load(&d->managed.allowed) && access("/proc/self/pagemap", F_OK) < 0)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"managed memory is refused: this kernel has no /proc/PID/pagemap (CONFIG_PROC_PAGE_MONITOR)");
}

static u32 worker_count(u32 wanted)
{
	long n = wanted ? (long)wanted : 2 * sysconf(_SC_NPROCESSORS_ONLN);

	return n < 4 && !wanted ? 4 : n > WORKERS_MAX ? WORKERS_MAX : (u32)n;
}

static void open_locks(struct cgpud *d)
{
	u32 i;

	pthread_mutex_init(&d->core_lock, NULL);
	pthread_mutex_init(&d->workers_lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		pthread_mutex_init(&d->order[i], NULL);
	for (i = 0; i < WORKERS_MAX; i++) {
		d->worker[i].d = d;
		pthread_mutex_init(&d->worker[i].busy, NULL);
	}
}

static int open_parts(struct cgpud *d, const struct cgpud_options *o, char *error, size_t bytes)
{
	int r, reaper, looks;

	/* Comes first: its forked spawner must have no descriptors of the others. */
	looks = looks_open(&d->looks, &d->core, &d->events);
	open_locks(d);
	sharing_init(d);
	timeslice_init(d);
	events_open(&d->events, o->event_fd);
	managed_open(d, o->managed_memory);
	d->ops = (struct cgpu_ops){
		.lock = core_lock,
		.unlock = core_unlock,
		.log = core_log,
		.cgroup_of = core_cgroup_of,
		.process_in = core_process_in,
		.orphans = core_orphans,
		.cards = core_cards,
		.clock = sharing_clock,
		.round = sharing_wake,
	};
	d->work = &supervise_work;
	d->core.ops = &d->ops;
	d->core.ctx = d;
	d->workers = worker_count(o->workers);
	d->follows = o->follows;
	d->pidfd_thread = process_has_thread_pidfd();
	d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->driver.fd = d->in_flight.fd = d->files.epoll = -1;
	check_pagemap(d);
	devices_init(&d->devices);
	r = listeners_open(&d->listeners, d->wake_fd);
	d->listeners.share = WORKERS_SHARE;
	d->listeners.limited_from = WORKERS_MAX / 2;
	/* The reaper opens also after a failure: it cannot be closed unopened. */
	reaper = reaper_open(&d->reaper);
	if (r == 0 && reaper < 0)
		r = -ENFILE;
	r = r == 0 ? looks : r;
	if (r == 0)
		r = supervise_sizes(d);
	if (r < 0) {
		snprintf(error, bytes, "this kernel lacks what the engine needs (seccomp notifications, pidfd): %s",
			strerror(-r));
		return r;
	}
	open_files(d, o->files_fd);
	r = open_state(d, state_file_open(&d->in_flight, o->state_fd), error, bytes);
	if (r == 0)
		r = open_driver(d, o, error, bytes);
	r = r < 0 ? r : open_ledger(d, &o->settings, error, bytes);
	if (r == 0)
		core_cards(d, ~0u);
	return r;
}

int cgpud_open(struct cgpud **out, const struct cgpud_options *options, char *error, size_t bytes)
{
	struct cgpud *d = calloc(1, sizeof(*d));
	int r;

	*out = NULL;
	if (!d)
		return -ENOMEM;
	snprintf(error, bytes, "cannot start");
	r = open_parts(d, options, error, bytes);
	if (r < 0)
		cgpud_close(d);
	else
		*out = d;
	return r;
}

struct cgpu_core *cgpud_core(struct cgpud *d)
{
	return &d->core;
}

int cgpud_attach(struct cgpud *d, int fd, u32 slot, u64 generation, u64 serial, u32 kept)
{
	struct listener_facts facts = { .slot = slot, .generation = generation, .serial = serial };
	struct fair fair;

	fair_begin(&fair, &d->core);
	return listener_add(&d->listeners, fd, &facts, kept ? NULL : &fair);
}

int cgpud_start(struct cgpud *d, char *error, size_t bytes)
{
	int r;

	external_take_up(d);
	managed_take_up(d);
	/* Charges of processes that ended meanwhile would make the first calls seem too much. */
	reaper_reconcile(d, -1);
	/* Sample the cards' own use before there are new processes. The engine before has done it, and callers wait. */
	if (!d->follows)
		unaccounted_sample(d);
	r = sharing_start(d);
	if (r == 0)
		r = workers_start(d, error, bytes);
	/* Comes last: the reaper's first round takes locks that calls need. */
	if (r == 0)
		r = reaper_start(d);
	if (r < 0)
		snprintf(error, bytes, "cannot start a thread: %s", strerror(-r));
	return r;
}

int cgpud_apply(struct cgpud *d, const struct cgpu_settings *settings)
{
	struct cgpu_settings own = *settings;

	own.major = d->devices.at[0].identity.is_char ? d->devices.at[0].identity.major : 0;
	atomic_store(&d->enforce, own.enforce);
	return cgpu_settings_apply(&d->core, &own);
}

void cgpud_allow_managed(struct cgpud *d, u32 allowed)
{
	atomic_store(&d->managed.allowed, allowed);
}

void cgpud_status(struct cgpud *d, struct cgpud_status *s)
{
	static const char *const layouts[] = { "exact", "row", "nearest" }; /* by enum cgpu_abi_source */

	memset(s, 0, sizeof(*s));
	snprintf(s->driver, sizeof(s->driver), "%s", d->driver.version);
	snprintf(s->layout, sizeof(s->layout), "%s", layouts[d->driver.source]);
	s->gpus = d->driver.gpus;
	s->workers = atomic_load(&d->started);
	s->driver_error = atomic_load(&d->driver.error);
	s->kept_answers = atomic_load(&d->in_flight.kept);
	s->recovered = atomic_load(&d->counters.recovered);
	s->supervised = atomic_load(&d->counters.supervised);
	s->executed = atomic_load(&d->counters.executed);
	s->continued = atomic_load(&d->counters.continued);
	s->refused = atomic_load(&d->counters.refused);
	s->interrupted = atomic_load(&d->counters.interrupted);
	s->faults = atomic_load(&d->counters.faults);
	s->lost_lines = atomic_load(&d->events.lost);
	s->rounds = atomic_load(&d->sharing.rounds);
	s->channels = atomic_load(&d->sharing.changed);
	s->channels_failed = atomic_load(&d->sharing.failed);
	s->timeslices = atomic_load(&d->timeslices.set);
	s->timeslices_left = atomic_load(&d->timeslices.left);
	pthread_mutex_lock(&d->listeners.lock);
	s->listeners = d->listeners.count;
	pthread_mutex_unlock(&d->listeners.lock);
}

int cgpud_node(struct cgpud *d, u32 index, struct cgpud_node *node)
{
	const struct device *device = &d->devices.at[index];

	if (index >= d->devices.count)
		return -ENOENT;
	memset(node, 0, sizeof(*node));
	snprintf(node->path, sizeof(node->path), "%s", device->path);
	node->character_device = device->identity.is_char;
	node->major = device->identity.major;
	node->minor = device->identity.minor;
	return 0;
}

int cgpud_serves(struct cgpud *d, u64 serial)
{
	struct listener *one = listener_find(&d->listeners, serial);

	if (one)
		listener_put(&d->listeners, one);
	return one != NULL;
}

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

int cgpud_close(struct cgpud *d)
{
	u32 stuck = workers_stop(d, WORKERS_STOP_ROUNDS);

	stuck += sharing_stop(d, SHARING_STOP_MS);
	reaper_stop(d);
	/* The stuck threads still use the engine's memory. They end with the process. */
	if (stuck)
		return -EBUSY;
	reaper_close(&d->reaper);
	external_close(d);
	sharing_close(d);
	address_spaces_close(&d->managed.spaces);
	looks_close(&d->looks);
	listeners_close(&d->listeners);
	driver_close(&d->driver);
	devices_close(&d->devices);
	state_file_close(&d->in_flight);
	files_close(&d->files);
	close_any(d->wake_fd);
	pthread_mutex_destroy(&d->core_lock);
	free(d);
	return 0;
}
