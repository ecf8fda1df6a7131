// SPDX-License-Identifier: Apache-2.0
/* Looks whose helper does not answer, and what comes of the next ones: on the test's own process, without a driver. */
#define _GNU_SOURCE
#include <sys/mman.h>
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

int __wrap_process_ended(int pidfd)
{
	return !never_ends && __real_process_ended(pidfd);
}

static void begin(void)
{
	events_open(&events, -1);
	CHECK_EQ(looks_open(&looks, &bench_new("580.142")->core, &events), 0);
}

static int look(u32 slot, u32 wait_ms)
{
	struct asker asker = { &looks, slot, 7, wait_ms };
	struct identity identity;

	return look_at_file(&asker, getpid(), 0, &identity);
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

/* Threads of the container's own have its lock nearly all the time: who is needed by all waits for it once in a while. */
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

TEST(a_late_answer_is_not_taken_for_that_of_another_look)
{
	struct asker asker = { &looks, A, 7, LOOKS_SOON_MS };
	struct identity identity;

	begin();
	CHECK_EQ(look(A, LOOKS_MS), 0);
	signal_helper(A, SIGSTOP);
	/* It comes with a file. */
	CHECK_EQ(look_open(&asker, getpid(), LOOKS_MEMORY), -ETIMEDOUT);
	signal_helper(A, SIGCONT);
	asker.wait_ms = LOOKS_MS;
	CHECK_EQ(look_at_file(&asker, getpid(), 9999, &identity), -ENOENT);
	CHECK_EQ(atomic_load(&looks.late), 0);
}

TEST(a_container_has_few_helpers_that_do_not_end)
{
	u32 i;

	begin();
	never_ends = 1;
	for (i = 0; i < LOOKS_STUCK_SHARE; i++) {
		CHECK_EQ(look(A, LOOKS_MS), 0);
		signal_helper(A, SIGSTOP);
		looks.at[A].rests = 0;
		CHECK_EQ(look(A, LOOKS_SOON_MS), -ETIMEDOUT);
		signal_helper(A, SIGKILL);
	}
	CHECK_EQ(look(A, LOOKS_MS), -EBUSY);
	CHECK_EQ(look(B, LOOKS_MS), 0);
	never_ends = 0;
	CHECK_EQ(look(A, LOOKS_MS), 0);
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
