/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's limits on cgroups, as drivers from 615 on have them without the kernel's dmem controller:
 * src/nvidia/src/kernel/mem_mgr/memacct.c of NVIDIA's open kernel modules 615.71.09. The table lies in a file that is shared
 * with a fake libnvidia-ml.so.1 (tests/nvml), which sets limits there as NVML does through the driver.
 */
#ifndef CGPU_SIM_MEMACCT_H
#define CGPU_SIM_MEMACCT_H

#include <pthread.h>
#include <stdint.h>

#define MEMACCT_CARDS 32u
#define MEMACCT_GROUPS 1024u
#define MEMACCT_PATH 512u

/* What one cgroup may have of one card. A record never goes, as there. */
struct memacct_group {
	char path[MEMACCT_PATH]; /* below the root of the hierarchy; "": free */
	uint32_t card;
	uint64_t soft, hard, available;
};

struct memacct_card {
	char uuid[48];
	uint64_t bytes;
};

/* What a test has the library do. */
struct memacct_faults {
	uint32_t set_code, get_code; /* error of NVML for the next calls; 0: none */
	uint32_t card; /* only on this one */
	uint32_t delay_ms; /* of every call that sets or gets */
	uint32_t forgetful; /* a set succeeds and changes nothing */
	uint32_t mig; /* that card is in MIG mode */
	uint32_t spared; /* so many sets on that card still succeed */
	uint32_t sets, gets; /* calls until now */
	uint32_t softs; /* sets that asked for a soft limit */
};

struct memacct {
	struct memacct_faults faults; /* first: tests write it */
	pthread_mutex_t lock; /* between processes */
	char version[64];
	uint32_t cards;
	struct memacct_card card[MEMACCT_CARDS];
	struct memacct_group group[MEMACCT_GROUPS];
};

#endif
