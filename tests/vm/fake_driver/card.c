// SPDX-License-Identifier: GPL-2.0-only
/* The simulated card behind the driver, and the module parameters: the cards, and knobs of tests. */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "driver.h"
#include "engines.h"

struct sim *nvidia_card;

static char *cards = "T4";
module_param(cards, charp, 0444);
MODULE_PARM_DESC(cards, "the simulated cards: MODEL[=MIB][:COUNT][/mig=CARD]");

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
	"rm_dma_buf_dup_mem_handle, dma_buf_export, dma_buf_fd or nvidia_get_rm_ops");

static char test_copies[16];
module_param_string(test_copies, test_copies, sizeof(test_copies), 0644);
MODULE_PARM_DESC(test_copies,
	"for tests: how nested buffers are copied: aside, without os_memcpy_from_user and os_memcpy_to_user; or more, "
	"with a byte that lies behind each; descriptors: those of exports are looked up without nv_get_file_private");

static bool test_free_gates;
module_param(test_free_gates, bool, 0644);
MODULE_PARM_DESC(test_free_gates, "for tests: FIFO_DISABLE_CHANNELS is answered at once, and not done");

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

/* While the driver is loaded: "CARD 0" or "CARD 1". */
static int mig_set(const char *text, const struct kernel_param *parameter)
{
	unsigned int card, on;
	bool done = false;

	if (sscanf(text, "%u %u", &card, &on) != 2 || on > 1 || !nvidia_card || card >= nvidia_card->card_count)
		return -EINVAL;
	mutex_lock(&nvidia_card->lock);
	done = card_set_mig(&nvidia_card->cards[card], on);
	mutex_unlock(&nvidia_card->lock);
	return done ? 0 : -EOPNOTSUPP;
}
static const struct kernel_param_ops mig_ops = { .set = mig_set };
module_param_cb(test_mig, &mig_ops, NULL, 0200);
MODULE_PARM_DESC(test_mig, "for tests: CARD 1 switches MIG on for a card, CARD 0 off");

/* Likewise: "CARD 1" has a card fall off the bus, "CARD 0" has it come back. */
static int lost_set(const char *text, const struct kernel_param *parameter)
{
	unsigned int card, lost;

	if (sscanf(text, "%u %u", &card, &lost) != 2 || lost > 1 || !nvidia_card || card >= nvidia_card->card_count)
		return -EINVAL;
	mutex_lock(&nvidia_card->lock);
	nvidia_card->cards[card].lost = lost;
	mutex_unlock(&nvidia_card->lock);
	return 0;
}
static const struct kernel_param_ops lost_ops = { .set = lost_set };
module_param_cb(test_lost, &lost_ops, NULL, 0200);
MODULE_PARM_DESC(test_lost, "for tests: CARD 1 has a card fall off the bus, CARD 0 has it come back");

static int gsp_set(const char *text, const struct kernel_param *parameter)
{
	bool lacks;
	int result = kstrtobool(text, &lacks);

	if (result != 0 || !nvidia_card)
		return result != 0 ? result : -ENODEV;
	mutex_lock(&nvidia_card->lock);
	nvidia_card->lacks_gsp = lacks;
	mutex_unlock(&nvidia_card->lock);
	return 0;
}
static const struct kernel_param_ops gsp_ops = { .set = gsp_set };
module_param_cb(test_without_gsp, &gsp_ops, NULL, 0200);
MODULE_PARM_DESC(test_without_gsp, "for tests: channels cannot be disabled, as on cards without that processor");

/* An unknown version speaks as the newest known one does. */
static void choose_version(struct sim *sim)
{
	if (version_select(sim, nvidia_version))
		return;
	sim->number = nv_abi_versions[nv_abi_version_count - 1];
	sim->abi = &nv_abi_layouts[sim->number.layout];
	strscpy(sim->version, nvidia_version, sizeof(sim->version));
}

int card_create(void)
{
	const char *problem;
	struct sim *sim = kvzalloc(sizeof(*sim), GFP_KERNEL);

	if (sim)
		sim->buckets = kvcalloc(SIM_BUCKETS, sizeof(*sim->buckets), GFP_KERNEL);
	if (!sim || !sim->buckets) {
		kvfree(sim);
		return -ENOMEM;
	}
	mutex_init(&sim->lock);
	choose_version(sim);
	sim->follows_clock = true;
	if (!cards_parse(sim, cards, &problem)) {
		pr_err("nvidia: cards=%s: %s\n", cards, problem);
		kvfree(sim->buckets);
		kvfree(sim);
		return -EINVAL;
	}
	nvidia_card = sim;
	return 0;
}

void card_destroy(void)
{
	struct sim *sim = nvidia_card;
	u32 i;

	/* Only clients of the kernel are left: every open file holds a reference to this module. */
	while (sim->clients) {
		pr_warn("nvidia: client %#x of the kernel was left\n", sim->clients->handle);
		client_free(sim, sim->clients);
	}
	WARN_ON(sim->files || sim->object_count);
	for (i = 0; i < sim->card_count; i++)
		engines_destroy(&sim->cards[i]);
	kvfree(sim->buckets);
	kvfree(sim);
	nvidia_card = NULL;
}
