// SPDX-License-Identifier: GPL-2.0
/* Makes the simulated card that stands behind the driver, and takes it apart. */
#include <linux/slab.h>

#include "card.h"
#include "driver.h"

struct sim *nvidia_card;

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

	/* What is left now are clients of the kernel: every open file holds a reference to this module. */
	while (sim->clients) {
		pr_warn("nvidia: client %#x of the kernel was left\n", sim->clients->handle);
		client_free(sim, sim->clients);
	}
	WARN_ON(sim->files || sim->object_count);
	kvfree(sim->buckets);
	kvfree(sim);
	nvidia_card = NULL;
}
