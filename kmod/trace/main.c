// SPDX-License-Identifier: Apache-2.0
/* cgpu-recorder [OPTION]... -- COMMAND... */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder.h"

static bool prepare(struct recorder *r)
{
	int fd;

	if (!version_find(&r->version, r->options)) {
		fprintf(stderr, "cgpu-recorder: --driver %s: expected a version such as 580.142\n", r->options->driver);
		return false;
	}
	nodes_init(&r->nodes, r->options->dev);
	fd = open(r->options->output, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		fprintf(stderr, "cgpu-recorder: -o %s: %s; expected a file that can be written\n", r->options->output,
			strerror(errno));
		return false;
	}
	output_open(&r->output, fd);
	if (r->version.key == 0)
		fprintf(stderr,
			"cgpu-recorder: the driver at %s reports no known version: only sizes and results are "
			"recorded; expected --driver VERSION\n",
			r->options->dev);
	return true;
}

/* The command never ran: leave no empty file behind. */
static void forget(const struct recorder *r)
{
	struct stat about;

	if (fstat(r->output.fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 0)
		unlink(r->options->output);
}

static int finish(struct recorder *r)
{
	int status = r->root_status, failure = start_failure(r);

	if (failure) {
		forget(r);
		return failure;
	}
	if (r->output.error) {
		fprintf(stderr, "cgpu-recorder: -o %s: the trace is not complete: %s\n", r->options->output,
			strerror(r->output.error));
		return EXIT_OWN;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	struct options options;
	int result = options_parse(argc, argv, &options);
	struct recorder *r;

	if (result >= 0)
		return result;
	r = calloc(1, sizeof(*r));
	if (!r)
		return EXIT_OWN;
	r->options = &options;
	if (!prepare(r))
		return EXIT_OWN;
	result = start_command(r);
	if (result) {
		forget(r);
		return result;
	}
	loop_run(r);
	return finish(r);
}
