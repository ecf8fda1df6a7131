// SPDX-License-Identifier: Apache-2.0
/* cgpu-sim: start, mount, serve, stop. */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "sim.h"

#define DEFAULT_DRIVER "580.142"
/* More than may ever wait for one of them (register.c MAX_RESOLVING). */
#define MAX_THREADS 256
#define IDLE_THREADS 16

static const char usage[] =
	"usage: cgpu-sim --list\n"
	"       cgpu-sim --mount DIR --cards MODEL[=MIB][:COUNT][/mig=CARD] [--driver VERSION] [--says VERSION]\n"
	"       [--memory DIR] [--without-gsp]\n"
	"Serves simulated NVIDIA cards as files: DIR/nvidiactl, DIR/nvidia0 and on, DIR/driver.\n"
	"  --list    the models, each with its MIB and its name\n"
	"  --cards   MODEL is %s; MIB another memory size; COUNT 1 to 32;\n"
	"            CARD the number of a card that is in MIG mode\n"
	"  --driver  the driver version to answer as (default " DEFAULT_DRIVER ")\n"
	"  --says    the version it answers with, where it has the interface of another\n"
	"  --memory  a folder for what lies in memory: clients can map it, and what they write to pushbuffers is\n"
	"            read and done, as far as it copies and signals; without it memory has no contents;\n"
	"            for programs that are trusted\n"
	"  --without-gsp  as cards without that processor: no channel can be disabled by FIFO_DISABLE_CHANNELS\n"
	"SIGTERM unmounts and ends it.\n";

/* The options that have a value, or are "" where they are given; then the others. */
enum { MOUNT, CARDS, DRIVER, SAYS, MEMORY, WITHOUT_GSP, OPTIONS, LIST, HELP };
static const struct option names[] = {
	{ "mount", required_argument, NULL, MOUNT },
	{ "cards", required_argument, NULL, CARDS },
	{ "driver", required_argument, NULL, DRIVER },
	{ "says", required_argument, NULL, SAYS },
	{ "memory", required_argument, NULL, MEMORY },
	{ "without-gsp", no_argument, NULL, WITHOUT_GSP },
	{ "list", no_argument, NULL, LIST },
	{ "help", no_argument, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static int show_usage(FILE *stream, int status)
{
	fprintf(stream, usage, card_models_text(" or ", false));
	return status;
}

static int list_models(void)
{
	const struct model *model;
	size_t i;

	for (i = 0; (model = card_model(i)) != NULL; i++)
		printf("%s\t%u\t%s\n", model->key, (unsigned int)model->mib, model->name);
	return 0;
}

/* The exit status; -1: there is something to serve. */
static int parse(int argc, char **argv, const char *options[OPTIONS])
{
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == HELP)
			return show_usage(stdout, 0);
		if (option == LIST)
			return list_models();
		if (option > OPTIONS)
			return show_usage(stderr, 2);
		options[option] = optarg ? optarg : "";
	}
	if (!options[MOUNT] || !options[CARDS] || optind != argc)
		return show_usage(stderr, 2);
	return -1;
}

static bool refuse(const char *option, const char *value, const char *why)
{
	fprintf(stderr, "cgpu-sim: --%s %s: %s\n", option, value, why);
	return false;
}

/* The directory as an absolute path; made if it is not there, detached if a dead server left its mount. */
static bool prepare_mount(struct sim *sim, const char *path)
{
	struct stat here, above;
	char parent[4100];

	if (stat(path, &here) && errno == ENOTCONN)
		umount2(path, MNT_DETACH);
	if ((mkdir(path, 0755) && errno != EEXIST) || !realpath(path, sim->mount))
		return refuse("mount", path, strerror(errno));
	snprintf(parent, sizeof(parent), "%s/..", sim->mount);
	if (stat(sim->mount, &here) || stat(parent, &above) || !S_ISDIR(here.st_mode) || here.st_dev != above.st_dev) {
		fprintf(stderr, "cgpu-sim: --mount %s: not a plain directory; a mount there goes with: umount %s\n",
			path, sim->mount);
		return false;
	}
	return true;
}

static bool prepare(struct sim *sim, const char *const options[OPTIONS])
{
	const char *problem;

	if (!version_select(sim, options[DRIVER])) {
		fprintf(stderr,
			"cgpu-sim: --driver %s: not a driver version with a known interface (%u.%02u.%02u or newer)\n",
			options[DRIVER], nv_abi_versions[0].major, nv_abi_versions[0].minor, nv_abi_versions[0].patch);
		return false;
	}
	if (!cards_parse(sim, options[CARDS], &problem))
		return refuse("cards", options[CARDS], problem);
	cards_detach(sim);
	sim->follows_clock = true;
	sim->lacks_gsp = options[WITHOUT_GSP];
	if (options[SAYS] && !version_say(sim, options[SAYS]))
		return refuse("says", options[SAYS], "too long");
	if (options[MEMORY]) {
		if (!realpath(options[MEMORY], sim->memory_folder))
			return refuse("memory", options[MEMORY], strerror(errno));
		sim->contents = &gpu_contents;
	}
	return prepare_mount(sim, options[MOUNT]);
}

static void stop_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/*
 * Waits for a signal to stop. All state is in memory and the kernel ends open requests with the process, so nothing
 * else is left to do, even while a thread is held up by a caller's memory.
 */
static void *wait_for_stop(void *argument)
{
	struct sim *sim = argument;
	sigset_t set;
	int number;

	stop_signals(&set);
	sigwait(&set, &number);
	umount2(sim->mount, MNT_DETACH);
	_exit(0);
}

/* Reads pushbuffers: at once while there is something to do, else some thousand times a second. */
static void *work(void *argument)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	struct sim *sim = argument;
	bool more;

	for (;;) {
		pthread_mutex_lock(&sim->lock);
		more = sim->work && gpu_advance(sim);
		pthread_mutex_unlock(&sim->lock);
		if (!more)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Learns the mount's device number without a request to ourselves. */
static bool learn_device(struct sim *sim)
{
	struct statx about;

	if (statx(AT_FDCWD, sim->mount, AT_STATX_DONT_SYNC, STATX_TYPE, &about))
		return false;
	sim->device = makedev(about.stx_dev_major, about.stx_dev_minor);
	return true;
}

static int serve(struct sim *sim)
{
	char *words[] = { "cgpu-sim", "-oallow_other,default_permissions,fsname=cgpu-sim,subtype=cgpu-sim", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, words);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	struct fuse *fuse = fuse_new(&args, node_operations(), sizeof(*node_operations()), sim);
	pthread_t stopper, worker;
	sigset_t set;
	int result = 1;

	if (!fuse || fuse_mount(fuse, sim->mount) != 0)
		return fprintf(stderr, "cgpu-sim: cannot mount on %s; it needs root and /dev/fuse\n", sim->mount), 1;
	stop_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (learn_device(sim) && pthread_create(&stopper, NULL, wait_for_stop, sim) == 0) {
		if (sim->contents)
			pthread_create(&worker, NULL, work, sim);
		fuse_loop_cfg_set_max_threads(config, MAX_THREADS);
		fuse_loop_cfg_set_idle_threads(config, IDLE_THREADS);
		result = fuse_loop_mt(fuse, config) == 0 ? 0 : 1;
		pthread_cancel(stopper);
		pthread_join(stopper, NULL);
	}
	umount2(sim->mount, MNT_DETACH);
	fuse_loop_cfg_destroy(config);
	return result;
}

int main(int argc, char **argv)
{
	const char *options[OPTIONS] = { [DRIVER] = DEFAULT_DRIVER };
	int result = parse(argc, argv, options);
	struct sim *sim;

	if (result >= 0)
		return result;
	sim = calloc(1, sizeof(*sim));
	if (!sim || !(sim->buckets = calloc(SIM_BUCKETS, sizeof(struct object *)))) {
		fprintf(stderr, "cgpu-sim: out of memory\n");
		free(sim);
		return 1;
	}
	pthread_mutex_init(&sim->lock, NULL);
	result = prepare(sim, options) ? serve(sim) : 1;
	free(sim->buckets);
	free(sim);
	return result;
}
