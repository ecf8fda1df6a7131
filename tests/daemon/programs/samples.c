// SPDX-License-Identifier: Apache-2.0
/* What cgpud makes of a driver without samples of utilisation. Linked with --wrap for the driver itself. */
#include <stdlib.h>

#include "bench.h"
#include "engine.h"
#include "rm.h"

static int status;

int __wrap_rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes);

int __wrap_rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes)
{
	return status;
}

TEST(a_driver_without_them_is_asked_no_more)
{
	struct sched_client sc = { .fd = 0 };
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	d->core.abi = cgpu_abi_find("580.142");
	status = NV_ERR_GENERIC;
	CHECK_EQ(sched_client_sample(d, &sc, 0), -EAGAIN);
	status = -EBADF;
	CHECK_EQ(sched_client_sample(d, &sc, 0), -EBADF);
	CHECK_EQ(sc.no_samples, 0);
	status = NV_ERR_NOT_SUPPORTED;
	CHECK_EQ(sched_client_sample(d, &sc, 0), -EOPNOTSUPP);
	CHECK_EQ(sc.no_samples, 1);
	free(sc.samples);
	free(d);
}
