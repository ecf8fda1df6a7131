// SPDX-License-Identifier: GPL-2.0-only
/* The driver's requests to its GSP, for tests to read: /proc/opencgpu_gsp. A write to it forgets all. */
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "gsp.h"
#include "proc_text.h"

#define PROC_NAME "opencgpu_gsp"
#define ORDERS 4096u

static DEFINE_SPINLOCK(orders_lock);
static struct gsp_order *orders;
static u64 orders_count; /* since the last write; the oldest are lost beyond ORDERS */

void gsp_orders_add(const struct gsp_order *order)
{
	unsigned long flags;

	spin_lock_irqsave(&orders_lock, flags);
	orders[orders_count++ % ORDERS] = *order;
	spin_unlock_irqrestore(&orders_lock, flags);
}

static bool order_at(u64 number, struct gsp_order *order)
{
	unsigned long flags;
	bool there;

	spin_lock_irqsave(&orders_lock, flags);
	there = number < orders_count && number + ORDERS >= orders_count;
	if (there)
		*order = orders[number % ORDERS];
	spin_unlock_irqrestore(&orders_lock, flags);
	return there;
}

/* Zeroes at the end are left out. */
static void show_params(struct seq_file *s, const struct gsp_order *order)
{
	u32 bytes = min_t(u32, order->bytes, GSP_PARAMS_KEPT), i;

	while (bytes && order->params[bytes - 1] == 0)
		bytes--;
	for (i = 0; i < bytes; i++)
		seq_printf(s, "%02x", order->params[i]);
}

static int show_orders(struct seq_file *s, void *unused)
{
	u64 count = READ_ONCE(orders_count), i;
	struct gsp_order order;

	seq_printf(s, "orders=%llu lost=%llu\n", count, count > ORDERS ? count - ORDERS : 0);
	for (i = count > ORDERS ? count - ORDERS : 0; order_at(i, &order); i++) {
		seq_printf(s, "time=%llu command=%#x client=%#x object=%#x bytes=%u params=", order.time, order.command,
			order.client, order.object, order.bytes);
		show_params(s, &order);
		seq_putc(s, '\n');
	}
	return 0;
}

static ssize_t forget_orders(struct file *file, const char __user *text, size_t bytes, loff_t *at)
{
	unsigned long flags;

	spin_lock_irqsave(&orders_lock, flags);
	orders_count = 0;
	spin_unlock_irqrestore(&orders_lock, flags);
	return (ssize_t)bytes;
}

PROC_TEXT(orders, show_orders, forget_orders);

int gsp_orders_init(void)
{
	orders = vzalloc(array_size(ORDERS, sizeof(*orders)));
	if (!orders)
		return -ENOMEM;
	if (proc_create(PROC_NAME, 0600, NULL, &orders_ops))
		return 0;
	vfree(orders);
	return -ENOMEM;
}

void gsp_orders_exit(void)
{
	remove_proc_entry(PROC_NAME, NULL);
	vfree(orders);
}
