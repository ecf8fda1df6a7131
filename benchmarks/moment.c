// SPDX-License-Identifier: Apache-2.0
// Prints when it runs, in nanoseconds of CLOCK_MONOTONIC, and ends.
#include <stdio.h>
#include <time.h>

int main(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	return 0;
}
