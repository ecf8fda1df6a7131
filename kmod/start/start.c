// SPDX-License-Identifier: Apache-2.0
/*
 * Each program in DIR/bin of a bundle (install/packaging/build-bundle), by the name that it is called by. It runs the
 * bundle's Python, or another program of the bundle, by the bundle's own loader: nothing of the node's C library is needed,
 * wherever DIR lies.
 *
 *   python3 ARGUMENTS...   DIR/lib/programs/python3, as any program there
 *   cgpu ARGUMENTS...      the same Python with -IS DIR/lib/commands/cgpu
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PYTHON "python3"
#define PLACES 6 /* words of a path in make_words() */
/* Characters that end or replace a part of the loader's list of folders: libraries would come from the current one. */
#define IN_LISTS ":;$"

struct start {
	const char *name;
	char folder[PATH_MAX]; /* DIR */
	char paths[PLACES][PATH_MAX + NAME_MAX + 32];
};

/* Find DIR by this program's own path, and the name by which it was called: a link has the name of a command. */
static int find_places(struct start *start)
{
	const char *called = (const char *)getauxval(AT_EXECFN);
	ssize_t length = readlink("/proc/self/exe", start->folder, PATH_MAX - 1);

	if (length < 0 || !called)
		return -1;
	start->folder[length] = '\0';
	for (int level = 0; level < 2; level++) {
		char *slash = strrchr(start->folder, '/');

		if (!slash)
			return -1;
		*slash = '\0';
	}
	start->name = strrchr(called, '/') ? strrchr(called, '/') + 1 : called;
	errno = EINVAL;
	return strlen(start->name) > NAME_MAX || strpbrk(start->folder, IN_LISTS) ? -1 : 0;
}

/* Return DIR/WHERE/NAME, in the next of the places. */
static char *place(struct start *start, int at, const char *where, const char *name)
{
	snprintf(start->paths[at], sizeof(start->paths[at]), "%s/%s/%s", start->folder, where, name);
	return start->paths[at];
}

/* Return the loader's arguments. Its link has the command's name, which is the process's name then. */
static char **make_words(struct start *start, int argc, char **argv)
{
	char *script = place(start, 0, "lib/commands", start->name);
	int is_command = access(script, F_OK) == 0;
	const char *program = is_command ? PYTHON : start->name;
	char *const first[] = { place(start, 1, "bin", start->name), (char *)"--inhibit-cache",
		(char *)"--library-path", place(start, 2, "lib", ""), (char *)"--argv0",
		place(start, 3, "bin", program), place(start, 4, "lib/programs", program), (char *)"-IS", script };
	size_t count = sizeof(first) / sizeof(first[0]) - (is_command ? 0 : 2);
	char **words = calloc(count + (size_t)argc, sizeof(*words));

	if (words) {
		memcpy(words, first, count * sizeof(*words));
		memcpy(words + count, argv + 1, (size_t)argc * sizeof(*words)); /* the last one is the closing NULL */
	}
	return words;
}

int main(int argc, char **argv)
{
	static struct start start;
	char **words = NULL;

	if (argc > 0 && find_places(&start) == 0)
		words = make_words(&start, argc, argv);
	if (words)
		execv(place(&start, 5, "lib/loader", start.name), words);
	fprintf(stderr,
		"opencgpu: %s: cannot be started (%s); unpack the bundle again, in a path without " IN_LISTS "\n",
		argc > 0 ? argv[0] : "?", strerror(errno));
	return 1;
}
