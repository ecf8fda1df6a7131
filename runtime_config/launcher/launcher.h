/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of cgpu-container-runtime: read a command line, decide without Python where that is safe, start what comes next. */
#ifndef CGPU_LAUNCHER_H
#define CGPU_LAUNCHER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* LOW_LEVEL, LOW_LEVEL_PLAIN and SIM of cgpu/paths.py. */
#ifndef CGPU_LINK_PATH
#define CGPU_LINK_PATH "/run/cgpu-low-level-runtime"
#endif
#ifndef CGPU_PLAIN_LINK_PATH
#define CGPU_PLAIN_LINK_PATH CGPU_LINK_PATH ".plain"
#endif
#ifndef CGPU_SIM_PATH
#define CGPU_SIM_PATH "/run/cgpu/sim"
#endif
#ifndef CGPU_SERVER_PATH
#define CGPU_SERVER_PATH "/run/cgpu-container-runtime.sock"
#endif
/*
 * Most seconds for a server's answer. An answer takes milliseconds: 25 starts at once have ended after 0.1 s on two
 * processors. The server's longest wait for others is 10 s, for the agent of a Kubernetes node (WAIT_S of
 * cgpu/share_asks.py). A start that is given up on too soon is done all the same, by Python.
 */
#ifndef CGPU_ANSWER_TIMEOUT_S
#define CGPU_ANSWER_TIMEOUT_S 12
#endif
#ifndef CGPU_PYTHON
#define CGPU_PYTHON "/usr/bin/python3"
#endif
/* Where a bundle has the package, as BUNDLED of cgpu/paths.py. Beside it lies bin/python3. */
#define CGPU_BUNDLED "/lib/bundle/cgpu/"

/* Our names: the one for engines, and the one for the vendor's list of low-level runtimes, below which only runc or
 * crun comes. */
#define LAUNCHER_NAME "cgpu-container-runtime"
#define LAUNCHER_LOW_LEVEL LAUNCHER_NAME ".low-level"
/* Set to our pid for Python when we were called by the second of these names. */
#define LAUNCHER_BELOW "CGPU_RUNTIME_BELOW"
/* Set to our pid when a runtime is started that may call us again in this very process. */
#define LAUNCHER_AGAIN "CGPU_RUNTIME_AGAIN"
/* LD_ variables must not reach Python, but belong to the low-level runtime: they are passed on with this prefix. */
#define LAUNCHER_KEPT "CGPU_KEPT_"
/* Begins each line on standard error, as LINE_START of cgpu/errors.py does. */
#define LAUNCHER_LINE_START "opencgpu: "

/* A command line, as text: Python and the server get it so, and read none themselves. */
struct launcher_call {
	const char *command; /* create, run or restore; empty: starts no container */
	const char *bundle; /* the directory with config.json */
	const char *container;
	const char *log; /* the file of --log; empty: none */
	const char *log_format;
	const char *unknown; /* an option that is not known, so that the rest is not either; empty: all are known */
};

/* Read a command line as runc and crun do. The result points into argv. */
void launcher_parse(int argc, char *const *argv, struct launcher_call *call);

/* Whether a bundle's config.json certainly holds no request for a slice. False when in doubt. */
bool launcher_asks_nothing(const char *bundle);

/* Make read-only what is not written after the start of the program. */
void launcher_protect(void);

/* A server's answer for a start. */
struct launcher_prepared {
	char runtime[PATH_MAX]; /* the low-level runtime to become */
	int edited; /* the new config.json; -1: nothing is to change, and the next two are not set */
	int folder; /* the bundle */
	int former; /* config.json as it was read */
};

/* Ask the server about a start. False: there is no server for this call, or it leaves the call to Python. */
bool launcher_ask_server(const struct launcher_call *call, bool below, struct launcher_prepared *prepared);

/*
 * Put the content of one file in the place of a bundle's config.json, which has to be the other file still. Returns a
 * descriptor of the new file; -1: config.json is as it was.
 */
int launcher_replace(int folder, int former, int content);

/* Read a descriptor to its end, or up to limit bytes. Returns how many; -1 with errno set after an error. */
long launcher_read_all(int fd, char *buffer, size_t limit);

/* Become Python with a script and these arguments. Returns, with errno set, where that cannot be done. */
void launcher_exec_python(const char *script, int argc, char *const *argv, char *const *environment);

/* Say which Python cannot be started, and why, as errno has it. */
void launcher_say_no_python(void);

/* Say that a program did not find its script by its own path, and why, as errno has it. */
void launcher_say_lost(void);

/* Read a whole regular file of at most limit bytes. Returns its size, -1 with errno set otherwise. The
 * caller frees *text. */
long launcher_read_file(const char *path, size_t limit, char **text);

#endif
