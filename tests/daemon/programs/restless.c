// SPDX-License-Identifier: Apache-2.0
/* restless [--dev DIR] N: starts N processes that have memory of the card by a child's calls, and wait in vfork for
 * that child, so that no signal can stop them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client.h"

#define DEVICE 0x10u
#define SUBDEVICE 0x11u
#define MEMORY 0x500u

/* The client is its parent's, whose memory the child shares. Returns the driver's status. */
static uint32_t take_memory(struct session *session)
{
	static uint8_t params[CLIENT_PARAMS];
	uint32_t subdevice = SUBDEVICE, status = client_device(session, DEVICE);

	session->device = DEVICE;
	if (status == NV_OK)
		status = session_alloc(session, DEVICE, NV20_SUBDEVICE_0, params,
			session->settings->abi->NV2080_ALLOC_PARAMETERS.bytes, &subdevice);
	return status == NV_OK ? client_memory(session, MEMORY, 64 << 10) : status;
}

static void be_restless(const struct settings *settings, int made)
{
	static struct session session;
	uint32_t status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	session_init(&session, settings, 0);
	session.ctl = driver_open(settings, "nvidiactl");
	session.card = driver_open(settings, "nvidia0");
	session.client = 0;
	if (session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client) != NV_OK)
		_exit(3);
	if (vfork() == 0) {
		status = take_memory(&session);
		if (write(made, &status, sizeof(status)) != sizeof(status))
			_exit(4);
		client_rest();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	struct settings settings;
	int made[2], wanted, i;
	uint32_t status;

	client_begin(&settings, &argc, &argv, 0);
	wanted = argc > 0 ? atoi(argv[0]) : 1;
	if (pipe(made))
		return 2;
	for (i = 0; i < wanted; i++) {
		if (fork() == 0)
			be_restless(&settings, made[1]);
		if (read(made[0], &status, sizeof(status)) != sizeof(status) || status != NV_OK)
			return 1;
	}
	printf("stalling %d\n", wanted);
	fflush(stdout);
	client_next();
	return 0;
}
