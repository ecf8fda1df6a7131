// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into NVIDIA's programs, which want character devices: the files of a simulated card, mounted as /dev/nvidia*,
 * look like the driver's device nodes, and files below $CGPU_DEVICES take the place of those with the same path below
 * /proc and /sys. Opened files, ioctls and mappings stay what they are.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACE "CGPU_DEVICES" /* the folder with the files */
#define UVM_MAJOR "CGPU_UVM_MAJOR"
#define NVIDIA_MAJOR 195u
#define CTL_MINOR 255u
#define MAX_CARDS 32u
#define PUBLIC __attribute__((visibility("default")))

#define NEXT(name) ((__typeof__(&(name)))next(#name))

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

static int plain_stat(int fd, const char *path, struct stat *out, int flags)
{
	return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}

/* Which node of the driver a regular file is: by the file itself, through any path or descriptor. */
static dev_t node_of(dev_t device, ino_t inode)
{
	const char *major = getenv(UVM_MAJOR);
	unsigned int uvm = major ? (unsigned int)atoi(major) : 0;
	struct stat at;
	char path[32];
	unsigned int i;

	if (plain_stat(AT_FDCWD, "/dev/nvidiactl", &at, 0) || !S_ISREG(at.st_mode) || at.st_dev != device)
		return 0;
	if (at.st_ino == inode)
		return makedev(NVIDIA_MAJOR, CTL_MINOR);
	if (uvm && !plain_stat(AT_FDCWD, "/dev/nvidia-uvm", &at, 0) && at.st_dev == device && at.st_ino == inode)
		return makedev(uvm, 0);
	for (i = 0; i < MAX_CARDS; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", i);
		if (!plain_stat(AT_FDCWD, path, &at, 0) && at.st_dev == device && at.st_ino == inode)
			return makedev(NVIDIA_MAJOR, i);
	}
	return 0;
}

static int dressed(int result, struct stat *about)
{
	int error = errno;
	dev_t node;

	if (result == 0 && S_ISREG(about->st_mode)) {
		node = node_of(about->st_dev, about->st_ino);
		if (node) {
			about->st_mode = S_IFCHR | (about->st_mode & 07777);
			about->st_rdev = node;
			about->st_size = 0;
		}
	}
	errno = error;
	return result;
}

/* The file that takes the place of one below /proc or /sys, or the path itself. */
static const char *placed(const char *path, char room[PATH_MAX])
{
	const char *place = getenv(PLACE);
	struct stat about;
	int error = errno;

	if (!path || !place || (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0))
		return path;
	if (snprintf(room, PATH_MAX, "%s%s", place, path) >= PATH_MAX || plain_stat(AT_FDCWD, room, &about, 0))
		room = NULL;
	errno = error;
	return room ? room : path;
}

static int stat_at(int fd, const char *path, struct stat *out, int flags)
{
	char room[PATH_MAX];

	return dressed(plain_stat(fd, placed(path, room), out, flags), out);
}

PUBLIC int stat(const char *restrict path, struct stat *restrict out)
{
	return stat_at(AT_FDCWD, path, out, 0);
}

PUBLIC int lstat(const char *restrict path, struct stat *restrict out)
{
	return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

PUBLIC int fstat(int fd, struct stat *out)
{
	return stat_at(fd, "", out, AT_EMPTY_PATH);
}

PUBLIC int fstatat(int fd, const char *restrict path, struct stat *restrict out, int flags)
{
	return stat_at(fd, path, out, flags);
}

/* struct stat and struct stat64 are one here; the __x forms are those of programs linked before glibc 2.33. */
#define SAME(name, of, parameters, ...) \
	PUBLIC int name parameters;     \
	PUBLIC int name parameters      \
	{                               \
		return of(__VA_ARGS__); \
	}

SAME(stat64, stat, (const char *restrict path, struct stat64 *restrict out), path, (struct stat *)out)
SAME(lstat64, lstat, (const char *restrict path, struct stat64 *restrict out), path, (struct stat *)out)
SAME(fstat64, fstat, (int fd, struct stat64 *out), fd, (struct stat *)out)
SAME(fstatat64, fstatat, (int fd, const char *restrict path, struct stat64 *restrict out, int flags), fd, path,
	(struct stat *)out, flags)
SAME(__xstat, stat, (int form, const char *path, struct stat *out), ((void)form, path), out)
SAME(__xstat64, stat, (int form, const char *path, struct stat *out), ((void)form, path), out)
SAME(__lxstat, lstat, (int form, const char *path, struct stat *out), ((void)form, path), out)
SAME(__lxstat64, lstat, (int form, const char *path, struct stat *out), ((void)form, path), out)
SAME(__fxstat, fstat, (int form, int fd, struct stat *out), ((void)form, fd), out)
SAME(__fxstat64, fstat, (int form, int fd, struct stat *out), ((void)form, fd), out)
SAME(__fxstatat, fstatat, (int form, int fd, const char *path, struct stat *out, int flags), ((void)form, fd), path,
	out, flags)
SAME(__fxstatat64, fstatat, (int form, int fd, const char *path, struct stat *out, int flags), ((void)form, fd), path,
	out, flags)

PUBLIC int statx(int fd, const char *restrict path, int flags, unsigned int mask, struct statx *restrict out)
{
	char room[PATH_MAX];
	int result = (int)syscall(SYS_statx, fd, placed(path, room), flags, mask | STATX_TYPE | STATX_INO, out);
	dev_t node = 0;

	if (result == 0 && S_ISREG(out->stx_mode))
		node = node_of(makedev(out->stx_dev_major, out->stx_dev_minor), out->stx_ino);
	if (node) {
		out->stx_mode = (uint16_t)(S_IFCHR | (out->stx_mode & 07777));
		out->stx_rdev_major = major(node);
		out->stx_rdev_minor = minor(node);
		out->stx_size = 0;
	}
	return result;
}

/* The C library's own function, on the placed file. */
#define PLACED(type, name, parameters, ...)     \
	PUBLIC type name parameters             \
	{                                       \
		char room[PATH_MAX];            \
                                                \
		return NEXT(name)(__VA_ARGS__); \
	}

PLACED(int, access, (const char *path, int mode), placed(path, room), mode)
PLACED(int, faccessat, (int fd, const char *path, int mode, int flags), fd, placed(path, room), mode, flags)
PLACED(FILE *, fopen, (const char *restrict path, const char *restrict how), placed(path, room), how)
PLACED(FILE *, fopen64, (const char *restrict path, const char *restrict how), placed(path, room), how)
PLACED(DIR *, opendir, (const char *path), placed(path, room))
PLACED(ssize_t, readlink, (const char *restrict path, char *restrict out, size_t size), placed(path, room), out, size)
PLACED(int, scandir,
	(const char *restrict path, struct dirent ***restrict names, int (*wanted)(const struct dirent *),
		int (*compare)(const struct dirent **, const struct dirent **)),
	placed(path, room), names, wanted, compare)

static int open_at(int fd, const char *path, int flags, mode_t mode)
{
	char room[PATH_MAX];

	/* As the C library does it: a cancellation point. */
	return NEXT(openat)(fd, placed(path, room), flags, mode);
}

static mode_t mode_of(int flags, va_list *more)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(*more, mode_t) : 0;
}

#define OPEN(name, parameters, fd)                     \
	PUBLIC int name parameters                     \
	{                                              \
		va_list more;                          \
		mode_t mode;                           \
                                                       \
		va_start(more, flags);                 \
		mode = mode_of(flags, &more);          \
		va_end(more);                          \
		return open_at(fd, path, flags, mode); \
	}

OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int fd, const char *path, int flags, ...), fd)
OPEN(openat64, (int fd, const char *path, int flags, ...), fd)

SAME(__open_2, open_at, (const char *path, int flags), AT_FDCWD, path, flags, 0)
SAME(__open64_2, open_at, (const char *path, int flags), AT_FDCWD, path, flags, 0)

/* A link among the placed files leads to another one of them: programs know that by its path without the folder. */
PUBLIC char *realpath(const char *restrict path, char *restrict out)
{
	const char *place = getenv(PLACE);
	char room[PATH_MAX];
	char *found = NEXT(realpath)(placed(path, room), out);
	size_t length = place ? strlen(place) : 0;

	if (found && length > 0 && strncmp(found, place, length) == 0 && found[length] == '/')
		memmove(found, found + length, strlen(found + length) + 1);
	return found;
}
