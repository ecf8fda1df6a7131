/* SPDX-License-Identifier: GPL-2.0-only */
/* The NVIDIA driver: whether it is loaded, how other kernel modules ask it, and its cards. */
#ifndef CGPU_KM_DRIVER_H
#define CGPU_KM_DRIVER_H

#include "engine/engine.h"

/* --- driver.c: the driver is loaded and unloaded --- */

int km_driver_init(void);
void km_driver_exit(void);
/* The first core is there: add the cards of a driver that was waiting for it. Under the control lock. */
void km_driver_core_came(void);
/* Wait until its cards have been asked for. Without the control lock. */
void km_driver_settle(void);

/* --- loaded.c: facts about the loaded driver --- */

/* Under the control lock. */
struct km_loaded {
	struct module *driver; /* with its probes in place; set by km_loaded_set() */
	struct module *unfit, *uvm_unfit; /* loaded, and not enforced upon: nobody may be sliced meanwhile */
	char version[CGPU_KM_VERSION_BYTES];
};
extern struct km_loaded km_loaded;
void km_loaded_set(struct module *module);
/* Keep a row for km_loaded_take_row(). Returns whether it is another one; -EBUSY: containers keep theirs; -EINVAL: it is too long. */
int km_loaded_set_row(const char *row);
/* Choose layouts by the row that was written last, unless containers have come meanwhile. Under the control lock, with no call of
 * a container in flight. */
void km_loaded_take_row(void);
/* -EPROTO, and why: a driver is loaded that cannot be enforced upon, so nobody may be registered. Under the control
 * lock. */
int km_driver_check(char *why, size_t bytes);
/* Whether a driver is there with its probes. */
bool km_driver_attached(void);
/* Hold the loaded driver, until module_put(); its version goes to a buffer of CGPU_KM_VERSION_BYTES. NULL: there is none
 * that can be used, or not now. */
struct module *km_driver_hold(char *version);
/* Pick the layouts of the loaded driver for an engine. -EPROTO: its version is unknown, or is not checked where containers
 * would meet it. Under the control lock. */
int km_driver_layouts(struct km_engine *engine);
/* Whether the driver was seen to work past the probes: from then on no container's call is let in. */
bool km_driver_bypassed(void);
/* Note that the driver was seen to work past the probe on this function. */
void km_driver_distrust(const char *symbol);
/* Trust another driver, or the same one loaded anew. */
void km_driver_trust(void);

/* --- rm.c: its interface for other kernel modules --- */

/* Begin to use the interface: for one thread at a time. The driver stays as long. -ENODEV: there is none. */
const struct cgpu_km_rm *km_rm_begin(const struct km_engine *engine);
void km_rm_end(const struct cgpu_km_rm *rm);
/* Forget where its functions are: another driver comes. */
void km_rm_forget(void);

/* --- gpus.c: its cards --- */

/* Ask for the cards and add them. Under the control lock. */
int km_gpus_add(struct km_engine *engine);
/* Ask for a card's free memory and its MIG mode, unless that was just done, or no container has it open: to ask would
 * start it. */
void km_gpu_refresh(struct km_engine *engine, u32 gpu);
/* Take a page of a card, and give it back. -ENXIO: the card does not open. */
int km_gpu_take_page(struct km_engine *engine, u32 gpu);
/* cards() of the core's callbacks: asks these cards at once, also such as are started for it. Under the control lock. */
void km_gpus_ask_mig(void *ctx, u32 gpus);
/* Containers may have come: ask the cards regularly, as long as there are any. */
void km_gpus_watch(void);
void km_gpus_exit(void);

#endif
