// SPDX-License-Identifier: Apache-2.0
/* registers CPU COUNT: has so many debug registers of a processor until its input ends, as a debugger of the kernel does. */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static long watched[4];
	int i, cpu = argc == 3 ? atoi(argv[1]) : -1, count = argc == 3 ? atoi(argv[2]) : 0;

	for (i = 0; i < count && i < 4; i++) {
		struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT,
			.size = sizeof(attr),
			.bp_type = HW_BREAKPOINT_W,
			.bp_addr = (unsigned long)&watched[i],
			.bp_len = sizeof(long) };

		if (syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0) < 0) {
			perror("registers");
			return 1;
		}
	}
	puts("taken");
	fflush(stdout);
	return read(0, watched, 1) < 0;
}
