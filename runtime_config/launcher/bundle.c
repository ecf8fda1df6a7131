// SPDX-License-Identifier: Apache-2.0
/*
 * A quick scan of a bundle's config.json. Every request for a slice has one of these strings in it (a GPU that is
 * only named may be sliced by the node's default), or gives device nodes of the driver (devices.c), so a file with
 * neither has no request and needs no Python. The scan never grants: in doubt its answer is "may ask".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

/* Python refuses larger files; an ordinary one has 10 to 40 KiB. */
#define CONFIG_LIMIT (16u << 20)

static long read_all(int fd, char *buffer, size_t limit)
{
	size_t done = 0;

	while (done < limit) {
		ssize_t count = read(fd, buffer + done, limit - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -1;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (long)done;
}

long launcher_read_file(const char *path, size_t limit, char **text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	long size = -1;
	int error = EINVAL;

	*text = NULL;
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size <= limit) {
		/* One byte more than the size: a file that grew meanwhile is noticed. */
		*text = malloc((size_t)status.st_size + 1);
		size = *text ? read_all(fd, *text, (size_t)status.st_size + 1) : -1;
		error = errno;
		if (size != (long)status.st_size) {
			size = -1;
			free(*text);
			*text = NULL;
		}
	}
	close(fd);
	errno = error == ENOENT ? EINVAL : error;
	return size;
}

/*
 * JSON can spell any letter as \uXXXX. Go's encoder writes "<", ">" and "&" that way, and control characters and
 * the two line separators, none of which is part of a request.
 */
static bool has_hidden_letters(const char *text, size_t size)
{
	const char *end = text + size;
	const char *at = text;

	while ((at = memmem(at, (size_t)(end - at), "\\u", 2))) {
		static const char *const harmless[] = { "003c", "003e", "0026", "2028", "2029", NULL };
		bool hidden = true;

		at += 2;
		for (int i = 0; harmless[i] && hidden; i++)
			hidden = end - at < 4 || memcmp(at, harmless[i], 4) != 0;
		if (hidden && (end - at < 4 || (memcmp(at, "000", 3) != 0 && memcmp(at, "001", 3) != 0)))
			return true;
	}
	return false;
}

bool launcher_asks_nothing(const char *bundle)
{
	static const char *const traces[] = { "ALIYUN_COM_GPU_", "NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE",
		"opencgpu.io", "nvidia", "CUDA_VERSION", NULL };
	char path[PATH_MAX];
	char *text = NULL;
	bool nothing = true;
	int length = snprintf(path, sizeof(path), "%s/config.json", bundle);
	long size = -1;

	if (length > 0 && (size_t)length < sizeof(path))
		size = launcher_read_file(path, CONFIG_LIMIT, &text);
	if (size < 0)
		return false;
	for (int i = 0; traces[i] && nothing; i++)
		nothing = !memmem(text, (size_t)size, traces[i], strlen(traces[i]));
	nothing = nothing && !has_hidden_letters(text, (size_t)size) && !launcher_may_open_driver(text, (size_t)size);
	free(text);
	return nothing;
}
