// SPDX-License-Identifier: GPL-2.0
/* Makes the simulated card that stands behind the driver, and takes it apart. */
#include <linux/module.h>
#include <linux/slab.h>

#include "card.h"
#include "driver.h"
#include "engines.h"

struct sim *nvidia_card;

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

/* A version that nobody knows yet speaks as the newest known one does. */
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
	if (!cards_parse(sim, knob_cards(), &problem)) {
		pr_err("nvidia: cards=%s: %s\n", knob_cards(), problem);
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

	/* What is left now are clients of the kernel: every open file holds a reference to this module. */
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
