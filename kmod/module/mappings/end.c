// SPDX-License-Identifier: GPL-2.0-only
/* The memory goes, before the driver gives its place to another. */
#include <linux/delay.h>
#include <linux/mm.h>

#include "mappings/mappings.h"

/*
 * Whether the process has its addresses by now, so that they are found. A task may be kept in its call for good when it has: by a
 * tracer, or by an event of userfaultfd(2).
 */
static bool is_placed(struct mapping *mapping)
{
	bool placed;

	mutex_lock(&mapping->lock);
	placed = mapping->closed || !mapping->placing || mapping_mapped(mapping->file->f_mapping);
	mutex_unlock(&mapping->lock);
	return placed;
}

void mapping_unmap(struct mapping *mapping)
{
	mutex_lock(&mapping->lock);
	if (!mapping->closed)
		unmap_mapping_range(mapping->file->f_mapping, 0, 0, 1);
	mutex_unlock(&mapping->lock);
}

/* With the driver's locks, so not for long: only a task that gets no processor takes more than microseconds. */
static void await_place(struct mapping *mapping)
{
	unsigned long until = jiffies + HZ;

	while (!is_placed(mapping) && time_before(jiffies, until))
		usleep_range(20, 100);
}

void mapping_end(struct mapping *mapping)
{
	mutex_lock(&mapping->lock);
	mapping->ended = true;
	mutex_unlock(&mapping->lock);
	mapping_note_ended(mapping);
	if (mapping->client_file) {
		await_place(mapping);
		mapping_unmap(mapping);
	}
	mapping_put(mapping);
}

/* --- Memory of the host: freed by whatever task or thread --- */

static void end_all(u64 key)
{
	struct mapping *mapping;

	while ((mapping = mapping_get_by_key(key)))
		mapping_end(mapping);
}

KM_EXTERNAL(map_free, unsigned long(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long));
KM_EXTERNAL(map_user, unsigned long(unsigned long, unsigned long, unsigned long, unsigned long));
KM_EXTERNAL(map_peer, unsigned long(unsigned long, unsigned long));

/* The result is what the driver's function returned: the probe lets it through, as no file maps the memory any more. */
static unsigned long leave_with(unsigned long result)
{
	km_probe_leave();
	return result;
}

static bool free_wants(struct pt_regs *regs)
{
	return mapping_of_key(regs_get_kernel_argument(regs, 4));
}
NOKPROBE_SYMBOL(free_wants);

/* nv_free_pages() */
static unsigned long free_host(
	unsigned long nv, unsigned long count, unsigned long contiguous, unsigned long cache, unsigned long memory)
{
	end_all(memory);
	return leave_with(km_call(map_free)(nv, count, contiguous, cache, memory));
}

static bool user_wants(struct pt_regs *regs)
{
	return mapping_of_key(*(const u64 *)regs_get_kernel_argument(regs, 3));
}
NOKPROBE_SYMBOL(user_wants);

/* nv_unregister_user_pages(): memory of a process */
static unsigned long free_user(unsigned long nv, unsigned long count, unsigned long private, unsigned long memory)
{
	end_all(*(const u64 *)memory);
	return leave_with(km_call(map_user)(nv, count, private, memory));
}

static bool peer_wants(struct pt_regs *regs)
{
	return mapping_of_key(regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(peer_wants);

/* nv_unregister_peer_io_mem(): another device's */
static unsigned long free_peer(unsigned long nv, unsigned long memory)
{
	end_all(memory);
	return leave_with(km_call(map_peer)(nv, memory));
}

/* --- The window: unmapped in a call that names the client; see also km_mappings_file_closing() --- */

static bool window_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();

	return task_call && !READ_ONCE(task_call->unmaps) && mapping_of_key(task_call->client);
}
NOKPROBE_SYMBOL(window_wants);

static void end_page(u32 client, u64 page)
{
	struct mapping *mapping;
	bool alike;

	while ((mapping = mapping_get_by_window(client, page, NULL, &alike)))
		mapping_end(mapping);
}

/* The driver gives mappings of the same memory one place, and ends them one by one: any of them will do. */
static void end_window(const struct km_task_call *task_call, u64 address)
{
	u64 page = address & PAGE_MASK;
	bool alike;
	struct mapping *mapping = mapping_get_by_window(task_call->client, page, task_call->unmapped, &alike);

	if (mapping)
		mapping_end(mapping);
	if (mapping && !alike)
		end_page(task_call->client, page);
	/* Any could be meant; but a call that maps takes back only what it could not ready a file for. */
	if (!mapping && task_call->nr != NV_ESC_RM_MAP_MEMORY)
		end_all(task_call->client);
}

KM_EXTERNAL(map_window, void(unsigned long, unsigned long, unsigned long, unsigned long));

static void window_unmap(u64 address, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	struct km_task_call *task_call = km_task_call_current();

	end_window(task_call, address);
	WRITE_ONCE(task_call->unmaps, true);
	km_call(map_window)(a, b, c, d);
	WRITE_ONCE(task_call->unmaps, false);
	km_probe_leave();
}

/* os_unmap_user_space(), up to 560 */
static void unmap_old(unsigned long address, unsigned long bytes, unsigned long private)
{
	window_unmap(address, address, bytes, private, 0);
}

/* osUnmapPciMemoryUser() */
static void unmap_new(unsigned long gpu, unsigned long address, unsigned long bytes, unsigned long private)
{
	window_unmap(address, gpu, address, bytes, private);
}

void km_mappings_choose(void)
{
	bool old = km_symbol("nvidia", "os_unmap_user_space") != 0;

	km_probe_map_window.symbol = old ? "os_unmap_user_space" : "osUnmapPciMemoryUser";
	km_probe_map_window.replacement = old ? (void *)unmap_old : (void *)unmap_new;
}

void km_mappings_file_closing(const void *client_file)
{
	struct mapping *mapping;

	while ((mapping = mapping_get_by_client_file(client_file)))
		mapping_end(mapping);
}

void km_mappings_clear(void)
{
	mapping_remove_all();
}

/* The driver's proprietary part hides the newer one. */
struct km_probe km_probe_map_window = {
	.module = "nvidia", .wants = window_wants, .optional = true, KM_CALLS(map_window)
};

KM_PROBE_AROUND(map_free, "nvidia", "nv_free_pages", free_host, free_wants);
KM_PROBE_AROUND(map_user, "nvidia", "nv_unregister_user_pages", free_user, user_wants);
KM_PROBE_AROUND(map_peer, "nvidia", "nv_unregister_peer_io_mem", free_peer, peer_wants);
