/* SPDX-License-Identifier: Apache-2.0 */
/* A child process, for tests of news about processes. The child ends with the test at the latest. */
#ifndef CGPU_TEST_CHILD_H
#define CGPU_TEST_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static inline pid_t child_begin(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	return pid;
}

static inline void child_end(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

#endif
