// SPDX-License-Identifier: GPL-2.0
/* Module parameters: the cards, and what tests set to see what happens. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "driver.h"

static char *cards = "T4";
module_param(cards, charp, 0444);
MODULE_PARM_DESC(cards, "the simulated cards: MODEL[=MIB][:COUNT][/mig=CARD], MODEL is T4, V100, A10 or H200");

static bool defer_close;
module_param(defer_close, bool, 0644);
MODULE_PARM_DESC(defer_close, "for tests: clean up after a closed file in a kernel thread");

static unsigned int test_sleep_ms;
module_param(test_sleep_ms, uint, 0644);
MODULE_PARM_DESC(test_sleep_ms, "for tests: rm_ioctl sleeps so long before it works");

static unsigned int test_late_us;
module_param(test_late_us, uint, 0644);
MODULE_PARM_DESC(test_late_us, "for tests: rm_ioctl sleeps up to so long after its work, by chance");

static unsigned int test_late_ms;
module_param(test_late_ms, uint, 0644);
MODULE_PARM_DESC(test_late_ms, "for tests: rm_ioctl sleeps just so long after its work");

static char test_fail[64];
module_param_string(test_fail, test_fail, sizeof(test_fail), 0644);
MODULE_PARM_DESC(test_fail,
	"for tests: the function that fails: rm_ioctl, os_memcpy_from_user, os_memcpy_to_user, nv_dma_buf_export, "
	"rm_dma_buf_dup_mem_handle, dma_buf_export, dma_buf_fd, nvidia_get_rm_ops, nvUvmInterfaceDupMemory, nvUvmInterfacePmaAllocPages or nvUvmInterfaceMemoryAllocFB");

static char test_copies[16];
module_param_string(test_copies, test_copies, sizeof(test_copies), 0644);
MODULE_PARM_DESC(test_copies,
	"for tests: how nested buffers are copied: aside, without os_memcpy_from_user and os_memcpy_to_user; or more, "
	"with a byte that lies behind each; descriptors: those of exports are looked up without nv_get_file_private");

static bool test_free_gates;
module_param(test_free_gates, bool, 0644);
MODULE_PARM_DESC(test_free_gates, "for tests: FIFO_DISABLE_CHANNELS is answered at once, and not done");

const char *knob_cards(void)
{
	return cards;
}

bool knob_defer_close(void)
{
	return READ_ONCE(defer_close);
}

/* In pieces, so that a shorter time counts for those who sleep already. */
void knob_sleep(void)
{
	unsigned int slept = 0, ms, piece;

	while ((ms = READ_ONCE(test_sleep_ms)) > slept) {
		piece = min(500u, ms - slept);
		msleep(piece);
		slept += piece;
	}
}

void knob_linger(void)
{
	unsigned int most = READ_ONCE(test_late_us), ms = READ_ONCE(test_late_ms), us;

	/* A test can end it by a kill; the driver's own work would go on. */
	if (ms)
		schedule_timeout_killable(msecs_to_jiffies(ms));
	if (most == 0)
		return;
	us = get_random_u32() % most;
	usleep_range(us, us + 50);
}

bool knob_copies(const char *way)
{
	return test_copies[0] != '\0' && sysfs_streq(test_copies, way);
}

bool knob_fails(const char *function)
{
	/* A shell's echo ends the name with a line feed. */
	return test_fail[0] != '\0' && sysfs_streq(test_fail, function);
}

bool knob_free_gates(void)
{
	return READ_ONCE(test_free_gates);
}
