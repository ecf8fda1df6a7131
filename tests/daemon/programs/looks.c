// SPDX-License-Identifier: Apache-2.0
/* Looks whose helper does not answer, and the looks after them: on the test's own process, without a driver. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "child.h"
#include "clock.h"
#include "looks.h"

#define A 1
#define B 2

static struct events events;
static struct looks looks;
static int never_ends;

int __real_process_ended(int pidfd);
int __wrap_process_ended(int pidfd);

/* A helper that has been given up is no place's any more. */
static int is_given_up(int pidfd)
{
	u32 i;

	for (i = 0; i < LOOKS_PLACES && looks.at[i].helper.pidfd != pidfd; i++)
		;
	return i == LOOKS_PLACES;
}

int __wrap_process_ended(int pidfd)
{
	return !(never_ends && is_given_up(pidfd)) && __real_process_ended(pidfd);
}

static struct bench *begin(void)
{
	struct bench *bench = bench_new("580.142");

	events_open(&events, -1);
	CHECK_EQ(looks_open(&looks, &bench->core, &events), 0);
	return bench;
}

static int look_for(u32 slot, u64 generation, u32 wait_ms)
{
	struct asker asker = { &looks, slot, generation, wait_ms };
	struct identity identity;

	return look_at_file(&asker, getpid(), 0, &identity);
}

static int look(u32 slot, u32 wait_ms)
{
	return look_for(slot, 6 + slot, wait_ms);
}

static void signal_helper(u32 slot, int number)
{
	CHECK_EQ(syscall(SYS_pidfd_send_signal, looks.at[slot].helper.pidfd, number, NULL, 0), 0);
}

TEST(a_helper_that_does_not_answer_is_replaced)
{
	u64 began;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	began = clock_ms();
	CHECK_EQ(look(A, LOOKS_MS), -ETIMEDOUT);
	CHECK(clock_ms() >= began + LOOKS_MS);
	CHECK_EQ(atomic_load(&looks.late), 1);
	CHECK_EQ(look(A, LOOKS_MS), 0);
}

TEST(one_container_keeps_no_other_waiting)
{
	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	CHECK_EQ(look(A, LOOKS_SOON_MS), -ETIMEDOUT);
	CHECK_EQ(look(B, LOOKS_MS), 0);
	/* Nor a thread that all need once more: it does not even ask. */
	signal_helper(A, SIGCONT);
	CHECK_EQ(look(A, LOOKS_SOON_MS), -ETIMEDOUT);
	CHECK_EQ(look(A, LOOKS_MS), 0);
}

/*
 * Threads of the container's own have its lock nearly all the time: a look that all need waits for the lock once in a
 * while.
 */
TEST(a_lock_is_not_waited_for_again_and_again)
{
	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	pthread_mutex_lock(&looks.at[A].lock);
	CHECK_EQ(look(A, LOOKS_SOON_MS), -ETIMEDOUT);
	pthread_mutex_unlock(&looks.at[A].lock);
	CHECK_EQ(look(A, LOOKS_SOON_MS), -ETIMEDOUT);
	CHECK_EQ(look(A, LOOKS_MS), 0);
	CHECK_EQ(look(B, LOOKS_SOON_MS), 0);
}

static void *look_in_vain(void *ended)
{
	CHECK_EQ(look(A, LOOKS_MS), -ETIMEDOUT);
	*(u64 *)ended = clock_ms();
	return NULL;
}

TEST(a_wait_for_the_place_takes_nothing_of_a_look)
{
	u64 unlocked, ended;
	pthread_t thread;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	pthread_mutex_lock(&looks.at[A].lock);
	CHECK_EQ(pthread_create(&thread, NULL, look_in_vain, &ended), 0);
	usleep(LOOKS_MS / 2 * 1000);
	unlocked = clock_ms();
	pthread_mutex_unlock(&looks.at[A].lock);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(ended >= unlocked + LOOKS_MS);
}

TEST(a_late_answer_is_not_taken_for_that_of_another_look)
{
	struct asker asker = { &looks, A, 7, LOOKS_SOON_MS };
	struct identity identity;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	/* The late answer comes with a file. */
	CHECK_EQ(look_open(&asker, getpid(), LOOKS_MAPPINGS), -ETIMEDOUT);
	signal_helper(A, SIGCONT);
	asker.wait_ms = LOOKS_MS;
	CHECK_EQ(look_at_file(&asker, getpid(), 9999, &identity), -ENOENT);
	CHECK_EQ(atomic_load(&looks.late), 0);
}

/* Its helper is killed, and does not end. */
static void stick(u32 slot, u64 generation)
{
	CHECK_EQ(look_for(slot, generation, LOOKS_MS), 0);
	signal_helper(slot, SIGSTOP);
	looks.at[slot].rests = 0;
	CHECK_EQ(look_for(slot, generation, LOOKS_SOON_MS), -ETIMEDOUT);
	signal_helper(slot, SIGKILL);
}

static void stick_share(u32 slot, u64 generation)
{
	u32 i;

	never_ends = 1;
	for (i = 0; i < STUCK_SHARE; i++)
		stick(slot, generation);
	CHECK_EQ(look_for(slot, generation, LOOKS_MS), -EAGAIN);
}

TEST(a_container_has_few_helpers_that_do_not_end)
{
	begin();
	stick_share(A, 7);
	CHECK_EQ(look(B, LOOKS_MS), 0);
	never_ends = 0;
	CHECK_EQ(look(A, LOOKS_MS), 0);
}

/* Pods of one container each, but for processes 1 and 2, which are of one pod. */
static int find_pod(void *ctx, s32 pid, char *path, size_t bytes)
{
	snprintf(
		path, bytes, "/kubepods.slice/kubepods-pod%02d.slice/cri-containerd-%d.scope", pid == 2 ? 1 : pid, pid);
	return 0;
}

static struct caller begin_container(struct bench *bench, const char *id, s32 pid)
{
	char line[64];

	bench->ops.cgroup_of = find_pod;
	snprintf(line, sizeof(line), "create id=%s pid=%d gpu=0:1048576000", id, pid);
	CHECK_EQ(bench_ctl(bench, line), 0);
	return bench_caller(bench, id, 100);
}

TEST(a_restart_brings_a_pod_no_new_share)
{
	struct bench *bench = begin();
	struct caller first = begin_container(bench, "a", 1), again, other;

	stick_share(first.slot, first.generation);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	again = begin_container(bench, "b", 2);
	other = begin_container(bench, "c", 3);
	CHECK_EQ(look_for(again.slot, again.generation, LOOKS_MS), -EAGAIN);
	CHECK_EQ(look_for(other.slot, other.generation, LOOKS_MS), 0);
}

static struct stuck_owner owner_in(const char *cgroup, const char *id)
{
	struct cgpu_container_info info = { 0 };

	snprintf(info.id, sizeof(info.id), "%s", id);
	snprintf(info.cgroup, sizeof(info.cgroup), "%s", cgroup);
	return stuck_owner_of(&info);
}

TEST(a_pod_is_known_by_its_control_group)
{
	static const char *const pods[][2] = {
		{ "/kubepods/burstable/pod2f/a", "/kubepods/burstable/pod2f/b" },
		{ "/kubepods.slice/kubepods-pod2f_0a.slice/crio-a.scope/container",
			"/kubepods.slice/kubepods-pod2f_0a.slice/crio-b.scope" },
		{ "/machine.slice/machine-libpod_pod_2f.slice/libpod-a.scope",
			"/machine.slice/machine-libpod_pod_2f.slice/libpod-b.scope" },
	};
	static const char *const others[] = { "/", "/docker/2f", "/machine.slice/libpod-2f.scope", "/kubepods.slice/2f",
		"/system.slice/podman.service/2f", "pids:/docker/2f" };
	size_t i;

	for (i = 0; i < sizeof(pods) / sizeof(pods[0]); i++)
		CHECK_EQ(owner_in(pods[i][0], "a").key, owner_in(pods[i][1], "b").key);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		CHECK(owner_in(others[i], "a").key != owner_in(others[i], "b").key);
		CHECK_EQ(owner_in(others[i], "a").key, owner_in("/", "a").key);
	}
}

/* Number of helpers that an owner gets which does not let one end. */
static u32 fill(struct stuck_owner owner)
{
	u32 count = 0;

	for (; stuck_has_room(&looks.stuck, &owner); count++)
		stuck_add(&looks.stuck, &owner, dup(0));
	return count;
}

TEST(all_helpers_that_do_not_end_are_bounded)
{
	struct rlimit files = { 4096, 4096 };
	struct stuck_owner owner = { .key = 0 };
	u32 all = 0, got;

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	begin();
	never_ends = 1;
	/* Looks that hang for containers that are gone have one half. */
	for (owner.gone = 1; (got = fill(owner)); owner.key++)
		all += got;
	CHECK_EQ(all, STUCK_MAX / 2);
	for (owner.gone = 0; (got = fill(owner)); owner.key++) {
		CHECK(got <= STUCK_SHARE && got <= (STUCK_MAX - all) / 2);
		all += got;
	}
	CHECK_EQ(all, STUCK_MAX - 1);
	CHECK_EQ(look(A, LOOKS_MS), -EAGAIN);
	never_ends = 0;
	CHECK_EQ(look(A, LOOKS_MS), 0);
}

/* Every kernel tells this. The ioctl that process_tgid() asks is of Linux 6.13. */
static int pid_of(int pidfd)
{
	char path[64], text[512];
	const char *line;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	CHECK(read_text(path, text, sizeof(text)) > 0);
	line = strstr(text, "\nPid:");
	CHECK(line != NULL);
	return atoi(line + strlen("\nPid:"));
}

/* Number of descriptors that a helper has of a file. */
static u32 count_open(u32 slot, const char *path)
{
	char folder[64], link[400], target[64];
	const struct dirent *entry;
	u32 count = 0;
	ssize_t n;
	DIR *open;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid_of(looks.at[slot].helper.pidfd));
	open = opendir(folder);
	CHECK(open != NULL);
	while ((entry = readdir(open))) {
		snprintf(link, sizeof(link), "%s/%s", folder, entry->d_name);
		n = readlink(link, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = 0;
		count += strcmp(target, path) == 0;
	}
	closedir(open);
	return count;
}

static int look_at_null(const struct asker *asker, int fd, const void *address, struct call_look *call)
{
	*call = (struct call_look){ .copied = 1, .bytes = 8 };
	CHECK_EQ(identity_of(fd, "", &call->identity), 0);
	return look_at_call(asker, getpid(), fd, (uintptr_t)address, call);
}

/*
 * The copy is of the same file description, and the thread's own close of it is the last: the helper has none when it
 * has written.
 */
TEST(a_copy_is_the_callers_alone_once_its_call_is_answered)
{
	struct asker asker = { &looks, A, 7, LOOKS_MS };
	int fd = open("/dev/null", O_RDWR), round;
	u64 text = 0x0123456789abcdefull;
	struct part part = { (uintptr_t)&text, "answered", 8 };
	struct call_look call;

	begin();
	/* Without pidfds of threads, before Linux 6.9, the engine asks for no copy. */
	if (!process_has_thread_pidfd())
		return;
	for (round = 0; round < 2; round++) {
		CHECK_EQ(look_at_null(&asker, fd, &text, &call), 0);
		CHECK(call.copy >= 0 && same_file(call.copy, fd) == 1);
		CHECK_EQ(call.bytes, 8);
		CHECK_EQ(memcmp(call.data, &text, 8), 0);
		CHECK_EQ(count_open(A, "/dev/null"), 1);
		if (round == 0)
			CHECK_EQ(look_write(&asker, &call.memory, &part, 1), 0);
		else
			look_drop_copy(&asker, &call.memory);
		CHECK_EQ(count_open(A, "/dev/null"), 0);
		CHECK_EQ(memcmp(&text, "answered", 8), 0);
		look_close_memory(&call.memory);
		close(call.copy);
	}
}

/* No other look would have the helper close the copy. */
TEST(a_copy_that_comes_late_is_closed_next)
{
	struct asker asker = { &looks, A, 7, LOOKS_SOON_MS };
	int fd = open("/dev/null", O_RDWR);
	struct call_look call;
	u64 text = 5;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	CHECK_EQ(look_at_null(&asker, fd, &text, &call), -ETIMEDOUT);
	signal_helper(A, SIGCONT);
	CHECK_EQ(look(A, LOOKS_MS), 0);
	/* With the answer to this one it is closed at the latest. */
	CHECK_EQ(look(A, LOOKS_MS), 0);
	CHECK_EQ(count_open(A, "/dev/null"), 0);
	CHECK_EQ(atomic_load(&looks.late), 0);
}

TEST(a_memory_that_nobody_needs_makes_room)
{
	struct asker asker = { &looks, A, 7, LOOKS_MS };
	struct look_memory memory[LOOK_MEMORIES], more = { 0 };
	u64 text = 5, read = 0;
	u32 i;

	begin();
	for (i = 0; i < LOOK_MEMORIES; i++)
		CHECK_EQ(look_open_memory(&asker, getpid(), &memory[i]), 0);
	CHECK_EQ(look_open_memory(&asker, getpid(), &more), -EMFILE);
	look_close_memory(&memory[3]);
	/* The memory is closed with the next look, and its place is free for the one after that. */
	CHECK_EQ(look(A, LOOKS_MS), 0);
	CHECK_EQ(look_open_memory(&asker, getpid(), &more), 0);
	CHECK_EQ(look_read(&asker, &more, (uintptr_t)&text, &read, sizeof(read)), 0);
	CHECK_EQ(read, 5);
}

/* Memory of another helper under this number is another call's. */
TEST(a_memory_ends_with_its_helper)
{
	struct asker asker = { &looks, A, 7, LOOKS_MS };
	struct look_memory memory, other;
	u64 text = 5, read = 0;
	struct part part = { (uintptr_t)&text, &read, sizeof(read) };

	begin();
	CHECK_EQ(look_open_memory(&asker, getpid(), &memory), 0);
	signal_helper(A, SIGKILL);
	CHECK_EQ(look_open_memory(&asker, getpid(), &other), 0);
	CHECK_EQ(other.number, memory.number);
	CHECK_EQ(look_read(&asker, &memory, (uintptr_t)&text, &read, sizeof(read)), -EFAULT);
	CHECK_EQ(look_write(&asker, &memory, &part, 1), -EFAULT);
	CHECK_EQ(text, 5);
	/* Nor does its end close the other one. */
	look_close_memory(&memory);
	CHECK_EQ(look(A, LOOKS_MS), 0);
	CHECK_EQ(look_read(&asker, &other, (uintptr_t)&text, &read, sizeof(read)), 0);
	CHECK_EQ(read, 5);
}

/* Only of what may be the driver's is more seen than which file it is. */
TEST(files_of_others_are_not_read)
{
	struct asker asker = { &looks, A, 7, LOOKS_MS };
	int fd = open("/dev/null", O_RDWR), other = memfd_create("other", 0);
	u64 text = 5;
	struct call_look call = { .copied = 1, .bytes = 8 };

	begin();
	CHECK_EQ(identity_of(fd, "", &call.identity), 0);
	CHECK_EQ(look_at_call(&asker, getpid(), other, (uintptr_t)&text, &call), 0);
	CHECK(!call.memory.place && call.copy < 0 && call.bytes == 0);
}

/* A look whose helper was killed is made by another one, and does not wait for long. */
TEST(a_helper_that_was_killed_is_replaced_at_once)
{
	u64 began;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGKILL);
	began = clock_ms();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	CHECK(clock_ms() < began + LOOKS_MS);
	CHECK_EQ(atomic_load(&looks.late), 0);
}

static void note(void *ctx, u64 start, u64 end)
{
	u64 *sum = ctx;

	*sum += end - start;
}

/* Only a file system of the container's own says what number a file has. */
TEST(a_mapping_counts_whatever_its_inode)
{
	static const char list[] = "7f0000000000-7f0000200000 rw-s 7f0000000000 00:2f 0     /some/nvidia-uvm\n"
				   "7f0000400000-7f0000600000 rw-s 7f0000400000 00:2f 12    /some/nvidia-uvm\n"
				   "7f0000800000-7f0000a00000 rw-p 7f0000800000 00:2f 12    /some/nvidia-uvm\n"
				   "7f0000c00000-7f0000e00000 rw-s 00000000 00:01 12        /dev/zero (deleted)\n";
	struct asker asker = { &looks, A, 7, LOOKS_MS };
	int fd = memfd_create("maps", MFD_CLOEXEC);
	u64 sum = 0;

	begin();
	CHECK_EQ(write(fd, list, sizeof(list) - 1), sizeof(list) - 1);
	CHECK_EQ(look_mappings(&asker, fd, note, &sum), 0);
	CHECK_EQ(sum, 4 * MIB);
}
