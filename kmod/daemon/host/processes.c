// SPDX-License-Identifier: Apache-2.0
/* Opens processes by numbers that are checked, and tells whether they have ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cgpu_core.h"
#include "descriptors.h"
#include "processes.h"

/* include/uapi/linux/pidfd.h of newer kernels than the build machine's may be. */
#define CGPU_PIDFD_THREAD O_EXCL
#define CGPU_PIDFD_GET_INFO _IOWR(0xff, 11, struct pidfd_info_v0)
#define CGPU_PIDFD_INFO_PID 1u
/* include/uapi/linux/magic.h */
#define CGPU_PID_FS_MAGIC 0x50494446
/* include/uapi/linux/kcmp.h */
#define CGPU_KCMP_FILE 0

struct pidfd_info_v0 {
	u64 mask;
	u64 cgroupid;
	u32 pid, tgid, ppid;
	u32 ids[8];
	u32 spare;
};

int notice_stands(const struct notice *notice)
{
	u64 id = notice->id;

	return ioctl(notice->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

u32 process_has_thread_pidfd(void)
{
	int fd = process_open((s32)syscall(SYS_gettid), 1);

	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

int process_open(s32 pid, u32 thread)
{
	long fd = syscall(SYS_pidfd_open, pid, thread ? CGPU_PIDFD_THREAD : 0);

	return fd < 0 ? -errno : (int)fd;
}

int process_take_fd(int pidfd, int fd)
{
	long copy = syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return copy < 0 ? -errno : (int)copy;
}

int process_ends(int pidfd, int ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

int process_ended(int pidfd)
{
	return process_ends(pidfd, 0);
}

int process_has_ended(s32 tgid)
{
	int fd = process_open(tgid, 0);
	int ended = fd == -ESRCH || (fd >= 0 && process_ended(fd));

	close_any(fd);
	return ended;
}

long read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (have < bytes - 1 && (n = read(fd, text + have, bytes - 1 - have)) > 0)
		have += (size_t)n;
	close(fd);
	text[have] = 0;
	return (long)have;
}

s32 process_tgid(int pidfd)
{
	struct pidfd_info_v0 info = { .mask = CGPU_PIDFD_INFO_PID };

	return ioctl(pidfd, CGPU_PIDFD_GET_INFO, &info) < 0 ? -errno : info.tgid ? (s32)info.tgid : -ESRCH;
}

int process_inode(s32 tid, u64 *inode)
{
	int fd = process_open(tid, 1), r = -ENOSYS;
	struct statfs system;
	struct stat file;

	if (fd < 0)
		return fd;
	/* Before there was such a file system all pidfds had one inode. */
	if (fstatfs(fd, &system) == 0 && system.f_type == CGPU_PID_FS_MAGIC && fstat(fd, &file) == 0) {
		*inode = file.st_ino;
		r = 0;
	}
	close(fd);
	return r;
}

int same_file(int one, int other)
{
	long r = syscall(SYS_kcmp, getpid(), getpid(), CGPU_KCMP_FILE, one, other);

	return r < 0 ? -errno : r == 0;
}
