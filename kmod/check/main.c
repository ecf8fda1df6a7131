// SPDX-License-Identifier: Apache-2.0
/* cgpu-check-driver [--dev DIR] [--rows TEXT] [--unknown-only] [--attempts N]: one line for each check, its words apart by tabs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* The longest time to open a card, and to check it. cgpu/check_driver/run.py ends a single check earlier. */
#define OPEN_SECONDS 20u
#define CARD_SECONDS 40u
#define ATTEMPTS 6u
#define EXIT_FAILED 1
#define EXIT_NO_DRIVER 2
#define FIRST_HANDLE 0x5c100001u
#define CARD_INFO_BYTES 72u

static const char help[] =
	"usage: cgpu-check-driver [--dev DIR] [--rows TEXT] [--unknown-only] [--attempts N]\n"
	"Checks whether the NVIDIA driver below DIR (/dev) understands its calls as the engine would take them.\n"
	"  --rows          layouts of versions that are not in the table, as the engine takes them\n"
	"  --unknown-only  check nothing when its version is in the table or the rows\n"
	"  --attempts      how often a check is made while others change the card's memory (6)\n"
	"The first line is: driver, VERSION, known, row or unknown, TABLE-VERSION; the others: begun, passed, failed or skipped, CARD,\n"
	"CHECK, REASON.\n"
	"exit status: 0 nothing failed, 1 something did, 2 no driver to check\n";

static const struct {
	const char *name;
	check_fn run;
	/* The check runs also on a card in MIG mode. */
	bool always;
	/* The check has the driver make duplicates. */
	bool duplicates;
	/* Way in which it asks for memory. */
	enum via via;
} checks[] = {
	{ "client, device and subdevice by NVOS64", .run = check_open, .always = true },
	{ "client, device and subdevice by NVOS21", .run = check_short_form, .always = true },
	{ "identity of the card", .run = check_identity, .always = true },
	{ "envelope of NV_ESC_IOCTL_XFER_CMD", .run = check_wrapper, .always = true },
	{ "parameters of classes", .run = check_classes, .always = true },
	{ "calls of nvidia-uvm", .run = check_uvm_calls, .always = true },
	{ "RM_ALLOC_MEMORY", .run = check_old_call, .always = true },
	{ "FB_GET_INFO, FB_GET_INFO_V2 and VID_HEAP INFO", .run = check_sizes },
	{ "FB_GET_FB_REGION_INFO", .run = check_regions },
	{ "memory by RM_ALLOC with NVOS64", .run = check_memory, .via = VIA_RM64 },
	{ "memory by RM_ALLOC with NVOS21", .run = check_memory, .via = VIA_RM21 },
	{ "memory by RM_ALLOC, cut short", .run = check_memory_cut },
	{ "memory by VID_HEAP ALLOC_SIZE", .run = check_memory, .via = VIA_HEAP },
	{ "memory by VID_HEAP ALLOC_SIZE_RANGE", .run = check_memory, .via = VIA_RANGE },
	{ "memory by VID_HEAP ALLOC_TILED_PITCH_HEIGHT", .run = check_memory, .via = VIA_TILED },
	{ "USE_EGM by VID_HEAP", .run = check_heap_egm },
	{ "refusals of RM_ALLOC", .run = check_refusals },
	{ "refusals of VID_HEAP", .run = check_heap_refusals },
	{ "GET_PIDS and GET_PID_INFO", .run = check_process },
	{ "GET_PIDS and GET_PID_INFO in another pid namespace", .run = check_namespace, .always = true },
	{ "DUP_OBJECT", .run = check_duplicate, .duplicates = true },
	{ "export and import", .run = check_export, .duplicates = true },
	{ "export and import of a list", .run = check_export_list, .duplicates = true },
	{ "metadata of a descriptor", .run = check_export_room },
	{ "channel group", .run = check_group },
	{ "mappings of UVM", .run = check_uvm_map },
};

static void tell(struct driver *driver, u32 minor, const char *name, enum verdict verdict, const char *detail)
{
	static const char *const words[] = { "passed", "failed", "skipped" };

	driver->failures += verdict == FAILED;
	printf("%s\t%u\t%s\t%s\n", words[verdict], minor, name, verdict == PASSED ? "" : detail);
}

/* Whoever waits for the checks knows by it which one did not come back. */
static void announce(u32 minor, const char *name)
{
	printf("begun\t%u\t%s\t\n", minor, name);
}

/* NULL: the check can be made, and does no harm. */
static const char *why_skip(const struct session *session, size_t check)
{
	if (session->mig && !checks[check].always)
		return "the card is in MIG mode";
	if (checks[check].duplicates && session->abi->dup_hangs_without_parent &&
		session->driver->source != CGPU_ABI_TABLE)
		return "this driver may hang for ever if its layouts are others";
	return NULL;
}

/* Without a client nothing more can be checked. A card in MIG mode cannot be sliced, and gives no memory. */
static void check_card(struct driver *driver, u32 minor, u32 gpu_id)
{
	struct session session = { .driver = driver,
		.abi = driver->abi,
		.minor = minor,
		.gpu_id = gpu_id,
		.ctl = -1,
		.card = -1,
		.uvm = -1,
		.uvm_mm = -1,
		.exported = -1,
		.next_handle = FIRST_HANDLE };
	enum verdict verdict = PASSED;
	const char *reason;
	size_t i;

	alarm(CARD_SECONDS);
	for (i = 0; i < sizeof(checks) / sizeof(checks[0]) && (i != 1 || verdict == PASSED); i++) {
		reason = why_skip(&session, i);
		if (reason) {
			tell(driver, minor, checks[i].name, SKIPPED, reason);
			continue;
		}
		announce(minor, checks[i].name);
		session.request.via = checks[i].via;
		verdict = checks[i].run(&session);
		tell(driver, minor, checks[i].name, verdict, session.detail);
		session_clean(&session);
	}
	driver->tested += !session.mig;
	session_close(&session);
}

static bool read_version(struct driver *driver, int ctl)
{
	/* No layout is chosen yet: this structure is the same in every version. */
	const struct nv_layout_nv_ioctl_rm_api_version_t *at = &nv_abi_layouts[0].nv_ioctl_rm_api_version_t;
	const struct span written[] = { { at->reply, 4 }, { at->versionString, 64 }, { 0, 0 } };
	struct session session = { .driver = driver };
	u8 data[128] = { 0 };
	u32 status;

	if (!guarded_make(&session.top))
		return false;
	put32(data, at->cmd, NV_RM_API_VERSION_CMD_QUERY);
	status = call_escape(&session, ctl, NV_ESC_CHECK_VERSION_STR, data, at->bytes, written);
	guarded_drop(&session.top);
	memcpy(driver->version, data + at->versionString, sizeof(driver->version) - 1);
	driver->table = cgpu_abi_nearest_version(driver->version);
	driver->abi = cgpu_abi_choose(driver->version, driver->rows, 1, &driver->row, &driver->source);
	return status == NV_OK;
}

/* The cards by minor number; 0: none there. */
static u32 read_cards(struct driver *driver, int ctl, u32 ids[CHECK_MAX_GPUS])
{
	const struct nv_layout_nv_ioctl_card_info_t *at = &driver->abi->nv_ioctl_card_info_t;
	const struct span written[] = { { 0, CARD_INFO_BYTES * CHECK_MAX_GPUS }, { 0, 0 } };
	u8 data[CARD_INFO_BYTES * CHECK_MAX_GPUS] = { 0 };
	struct session session = { .driver = driver };
	u32 found = 0, i, minor, status;

	if (at->bytes > CARD_INFO_BYTES || !guarded_make(&session.top))
		return 0;
	status = call_escape(&session, ctl, NV_ESC_CARD_INFO, data, (size_t)at->bytes * CHECK_MAX_GPUS, written);
	guarded_drop(&session.top);
	for (i = 0; status == NV_OK && i < CHECK_MAX_GPUS; i++) {
		minor = get32(data + (size_t)i * at->bytes, at->minor_number);
		if (!data[(size_t)i * at->bytes + at->valid] || minor >= CHECK_MAX_GPUS)
			continue;
		ids[minor] = get32(data + (size_t)i * at->bytes, at->gpu_id);
		found++;
	}
	return found;
}

/* The first check of a card reports that it cannot be opened. */
static void hold_cards(struct driver *driver, const u32 ids[CHECK_MAX_GPUS])
{
	u32 minor;

	for (minor = 0; minor < CHECK_MAX_GPUS; minor++) {
		driver->nodes[minor] = -1;
		if (!ids[minor])
			continue;
		alarm(OPEN_SECONDS);
		announce(minor, "opening the card");
		driver->nodes[minor] = node_open_card(driver, minor);
	}
}

static void check_cards(struct driver *driver, const u32 ids[CHECK_MAX_GPUS])
{
	u32 minor;

	hold_cards(driver, ids);
	for (minor = 0; minor < CHECK_MAX_GPUS; minor++) {
		if (ids[minor])
			check_card(driver, minor, ids[minor]);
	}
	for (minor = 0; minor < CHECK_MAX_GPUS; minor++) {
		if (driver->nodes[minor] >= 0)
			close(driver->nodes[minor]);
	}
}

static void tell_version(const struct driver *driver)
{
	static const char *const known[] = { "known", "row", "unknown" }; /* by enum cgpu_abi_source */
	const struct nv_abi_version *table = driver->table;

	printf("driver\t%s\t%s\t%u.%02u", driver->version, known[driver->source], table->major, table->minor);
	printf(table->patch ? ".%02u\n" : "\n", table->patch);
}

static int check_all(struct driver *driver, int ctl, bool unknown_only)
{
	u32 ids[CHECK_MAX_GPUS] = { 0 };

	if (!read_version(driver, ctl))
		return fprintf(stderr, "%s/nvidiactl does not tell its version\n", driver->dev), EXIT_NO_DRIVER;
	if (!driver->table)
		return fprintf(stderr, "driver version %s: is older than all that are known, 515.43.04 and newer\n",
			       driver->version),
		       EXIT_NO_DRIVER;
	tell_version(driver);
	if (unknown_only && driver->source != CGPU_ABI_NEAREST)
		return 0;
	if (read_cards(driver, ctl, ids) == 0)
		return fprintf(stderr, "driver version %s: lists no card that could be checked\n", driver->version),
		       EXIT_NO_DRIVER;
	check_cards(driver, ids);
	if (driver->tested == 0)
		return fprintf(stderr,
			       "driver version %s: cards in MIG mode tell too little; one outside of it is needed\n",
			       driver->version),
		       EXIT_NO_DRIVER;
	return driver->failures ? EXIT_FAILED : 0;
}

int main(int argc, char **argv)
{
	struct driver driver = { .dev = "/dev", .attempts = ATTEMPTS };
	bool unknown_only = false;
	char path[4200];
	int i, ctl;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--dev") == 0 && i + 1 < argc)
			driver.dev = argv[++i];
		else if (strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
			driver.rows = argv[++i];
		else if (strcmp(argv[i], "--unknown-only") == 0)
			unknown_only = true;
		else if (strcmp(argv[i], "--attempts") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0)
			driver.attempts = (u32)atoi(argv[++i]);
		else
			return fputs(help, stderr), EXIT_NO_DRIVER;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* The driver frees all objects that are left when a process ends. */
	alarm(OPEN_SECONDS);
	ctl = node_open(&driver, "nvidiactl");
	if (ctl < 0) {
		snprintf(path, sizeof(path), "%s/nvidiactl", driver.dev);
		fprintf(stderr, "%s: %s; load the NVIDIA driver; to try without a GPU: cgpud --simulate T4\n", path,
			strerror(errno));
		return EXIT_NO_DRIVER;
	}
	i = check_all(&driver, ctl, unknown_only);
	close(ctl);
	return i;
}
