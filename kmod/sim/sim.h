/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated NVIDIA cards: one server process that answers the driver's user interface on files of a FUSE mount.
 *
 *   rm          objects, classes, channels and the calls that make them; rm/control has the controls
 *   memory      video memory, and nvidia-uvm
 *   gpu         models, engines and the work on them
 *   contents    contents of memory, and the pushbuffers there
 *   frontend    the server, its mounted files, and facts of callers
 *
 * tests/layouts and the kernel modules of tests/vm/fake_driver are made of all but contents and frontend.
 * Everything here runs with sim->lock held unless a comment says otherwise; no memory of a caller is touched under it.
 */
#ifndef CGPU_SIM_H
#define CGPU_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "nv_abi.h"
#include "card_abi.h"
#include "fields.h"
#include "mapping.h"
#include "cards.h"

#define SIM_MAX_CARDS 32u
#define SIM_MAX_CLIENTS 65536u
/* Handles that the driver's generator has for one client (rs_client.h RS_UNIQUE_HANDLE_RANGE). */
#define SIM_MAX_CLIENT_OBJECTS 0x80000u
#define SIM_MAX_OBJECTS 4000000u
#define SIM_MAX_FILES 65536u
#define SIM_MAX_DEPTH 8u
#define SIM_BUCKETS (1u << 18)
/* The driver copies at most 1 MiB of nested parameters (rmapi/param_copy.h). */
#define SIM_MAX_PARAMS (1u << 20)
#define SIM_PAGE 4096ull
#define SIM_PAGE_BIG 65536ull
#define SIM_PAGE_HUGE (2ull << 20)
#define SIM_PAGE_512M (512ull << 20)

/* Video memory; alive as long as one object refers to it. */
struct memory {
	uint32_t refs;
	uint32_t card;
	/* Bytes that the driver reports, and bytes that the card has given. */
	uint64_t size;
	uint64_t taken;
	struct backing *backing; /* NULL: no client has read or written it */
};

struct client;
struct backing;
struct gpu_channel;
struct share;
struct engines;
struct engine_group;
struct engine_channel;
struct object {
	struct object *bucket_next;
	struct object *parent;
	struct object *child;
	struct object *next;
	struct object *prev;
	struct client *client;
	struct memory *memory;
	uint32_t handle;
	uint32_t class_id;
	uint32_t card;
	uint32_t va_space; /* of a channel group or addresses: the address space that they end with, or 0 */
	uint16_t depth;
	bool memory_owner;
	bool external; /* an address space whose maker has its tables, as UVM wants it */
	struct share *shares; /* who may duplicate the object, and all below it (object.c) */
	struct engine_group *group; /* of a channel group, and of a channel */
	struct engine_channel *channel;
	/* Backing of the host's memory; that of the card's memory is in `memory`. */
	struct backing *backing;
	/* Address space of a context share. */
	uint32_t virtual_space;
	uint64_t tables; /* bytes of page tables, of an address space or of addresses */
	bool pooled; /* they are the pool's */
	struct gpu_channel *work; /* of a channel that reads pushbuffers */
};

/* Functions of cards whose memory has contents (gpu.h). */
struct contents {
	void (*forget_work)(struct sim *sim, struct object *channel);
	uint32_t (*add_work)(struct sim *sim, struct object *channel, const uint8_t *params);
	const struct escape_entry *escapes;
};

struct open_file;
struct uvm_file;
struct client {
	struct client *next;
	struct open_file *owner;
	struct object *root;
	uint32_t handle;
	uint64_t number; /* handles come again, this does not */
	uint32_t objects;
	uint32_t next_handle;
	pid_t process;
};

/* One open file description. */
struct open_file {
	struct open_file *next;
	uint64_t id;
	uint32_t card; /* SIM_NO_CARD: nvidiactl */
	uint64_t registered;
	intptr_t hold; /* keeps the registered file open (register.c) */
	bool has_cards; /* NV_ESC_ATTACH_GPUS_TO_FD: */
	uint32_t cards; /* bits by number */
	/* Objects that were exported on this file; NULL: no call has made it ready for exports. */
	struct exports *exports;
	/* Client and channel of the last doorbell record (doorbell.h). */
	uint32_t rung_client;
	uint32_t rung_channel;
	struct mapping mapping; /* of mmap(2) */
};

struct sim {
	pthread_mutex_t lock;
	const struct nv_abi *abi;
	const struct card_abi *card_abi; /* layouts that the core does not know */
	char version[NV_RM_API_VERSION_STRING_LENGTH];
	struct nv_abi_version number;
	struct card cards[SIM_MAX_CARDS];
	uint32_t card_count;
	struct object **buckets;
	uint32_t object_count;
	struct client *clients;
	/* The driver's own client for exported objects, while there are any (export.c). */
	struct client *exporter;
	uint32_t exported;
	uint32_t next_export;
	uint32_t client_count;
	uint32_t next_client;
	uint64_t last_client;
	struct open_file *files;
	uint32_t file_count;
	uint64_t next_file;
	struct uvm_file *uvm_files;
	uint64_t memblock_size;
	/* The engines have the time of the machine's clock; else it stands still. */
	bool follows_clock;
	bool stuck; /* object_without_parent() */
	bool lacks_gsp; /* cards without it can have no channels disabled */
	dev_t device;
	char mount[4096];
	/* Folder of the cards' memory (backing.h). Empty: memory has no contents. */
	char memory_folder[4096];
	uint64_t last_memory;
	uint64_t next_virtual; /* addresses that were given out */
	const struct contents *contents; /* NULL: without such a folder */
	struct gpu_channel *work;
	atomic_uint resolving;
};

/* The caller: a thread number, as FUSE has it. */
struct caller {
	pid_t thread;
};

/* The kernel itself as caller: it has no file, its addresses are the kernel's, and it may use the clients of others. */
#define SIM_KERNEL ((pid_t)-1)

/* One call: the top-level structure is already copied into data. */
struct call {
	struct sim *sim;
	struct open_file *file;
	struct caller caller;
	uint32_t nr;
	uint8_t *data;
	size_t size;
};

struct alloc_request {
	uint32_t client;
	uint32_t parent;
	uint32_t handle;
	uint32_t class_id;
	uint64_t params;
	uint32_t params_size;
	bool is_admin;
	pid_t process;
};

/*
 * Where a call's fields lie is told by the layouts in `abi` and `card_abi`. Functions name theirs by `at`, which points to
 * struct nv_layout_NAME or struct card_layout_NAME; __auto_type spares the second NAME where that takes a line more.
 *
 * This is for tables: a size or place in a layout, by the offset of its member in struct nv_abi or struct card_abi.
 */
static inline uint16_t layout_word(const struct sim *sim, bool of_card, size_t at)
{
	const void *layouts = of_card ? (const void *)sim->card_abi : sim->abi;

	return *(const uint16_t *)((const uint8_t *)layouts + at);
}

static inline bool call_is_kernel(const struct call *call)
{
	return call->caller.thread == SIM_KERNEL;
}

/* version.c */
bool version_select(struct sim *sim, const char *text);
/* Says another one than it has the interface of. False: too long. */
bool version_say(struct sim *sim, const char *text);
bool version_at_least(const struct sim *sim, unsigned int major, unsigned int minor, unsigned int patch);

/* user_memory.c: no lock needed. False when the caller's memory cannot be reached. */
bool user_read(const struct caller *caller, uint64_t address, void *out, size_t size);
bool user_write(const struct caller *caller, uint64_t address, const void *data, size_t size);

/* caller.c: no lock needed. */
pid_t caller_process(const struct caller *caller);
bool caller_is_admin(const struct caller *caller);
/* Whether the caller has the rights of processes that may raise priorities. */
bool caller_is_nice(const struct caller *caller);
/* A descriptor of the caller as one of our own, or -1. */
int caller_descriptor(const struct caller *caller, int fd);

/* pid_view.c: no lock needed. Numbers of processes as the caller sees them. */
struct pid_view {
	uint64_t namespace;
	unsigned int level;
	bool translate;
};
void pid_view_open(struct pid_view *view, const struct sim *sim, const struct caller *caller);
/* 0 when the process is gone or not visible. */
uint32_t pid_view_of(const struct pid_view *view, pid_t process);

/* file.c */
struct open_file *file_open(struct sim *sim, uint32_t card);
/* Takes the lock itself. */
void file_release(struct sim *sim, struct open_file *file);
static inline uint64_t file_identity(const struct open_file *file)
{
	return file->registered ? file->registered : file->id;
}
/* The description that owns the clients made through this one. */
struct open_file *file_owner(struct sim *sim, const struct open_file *file);
struct open_file *file_find(struct sim *sim, uint64_t id);
/* Ties the file of a call to another one, by number; hold is given up with the file. Takes the lock; 0 or -errno. */
int file_tie(struct call *call, uint64_t id, intptr_t hold);
/* register.c, without the lock. The open file of this driver that a descriptor of the caller leads to, by number, kept open
 * until hold is let go; 0: none. */
uint64_t file_resolve(struct call *call, int fd, intptr_t *hold);
/* The same for NV_ESC_REGISTER_FD. 0 or -errno; after 0 the caller lets hold go, for any number. */
int file_look_up(struct call *call, int fd, uint64_t *id, intptr_t *hold);
void file_let_go(intptr_t hold);
/* Whether a descriptor of ours leads to an open nvidiactl of this server. */
#define SIM_IDENTIFY_IOCTL 0xc0104899u

/* object.c */
struct client *client_find(struct sim *sim, uint32_t handle);
struct client *client_numbered(const struct sim *sim, uint64_t number);
uint32_t client_create(struct sim *sim, struct open_file *owner, struct alloc_request *request);
void client_free(struct sim *sim, struct client *client);
void clients_free_of(struct sim *sim, const struct open_file *owner);
/* Finds a client this description may use: NV_OK, NV_ERR_INVALID_OBJECT_HANDLE or NV_ERR_INVALID_CLIENT. */
uint32_t client_for_call(struct call *call, uint32_t handle, struct client **client);

struct object *object_find(struct sim *sim, const struct client *client, uint32_t handle);
uint32_t object_create(struct sim *sim, struct client *client, struct object *parent, uint32_t *handle,
	uint32_t class_id, struct object **created);
/* The object and everything below it. */
void object_free(struct sim *sim, struct object *object);
struct object *object_next(const struct object *top, struct object *at);
/* Make a second handle of an object's resource; the caller checks rights. */
/* A duplicate whose parent is not there. Drivers 575 to 595 keep the lock of all calls then (rs_server.c, serverCopyResource):
 * each later call hangs, which here is that it fails. */
uint32_t object_without_parent(struct sim *sim);
uint32_t object_duplicate(struct sim *sim, const struct object *source, struct object *parent, uint32_t *handle);
int escape_share(struct call *call);
/* Gives leave to duplicate an object, and all below it. */
uint32_t share_add(
	struct sim *sim, struct object *object, uint16_t type, uint8_t action, uint32_t target, uint32_t rights);
bool share_lets_dup(const struct object *object, const struct client *client);

/* mig.c */
/* Whether a client has nothing of a card, because it has no instance of it. */
bool mig_denies(const struct sim *sim, const struct object *object);
/* NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_* of a card. */
uint32_t mig_mode(const struct card *card);
/* Whether it is told a size of the whole card all the same. */
bool mig_tells_all(uint32_t index);
/* Whether an object of a class of MIG's can be made there; NV_OK for all other classes. */
uint32_t mig_check(const struct sim *sim, uint32_t class_id, const struct object *parent);

/* memory.c */
struct memory_request {
	uint32_t owner;
	uint32_t type;
	uint32_t flags;
	uint32_t attr;
	uint32_t attr2;
	uint32_t va_space;
	uint32_t internal_flags;
	uint64_t range_low;
	uint64_t range_high;
	uint64_t size;
	uint64_t alignment;
	uint64_t offset;
	uint64_t limit;
};
uint32_t memory_create(struct sim *sim, uint32_t card, struct memory_request *request, struct memory **memory);
/* Takes bytes of a card; false: it has too few left. */
bool memory_take(struct card *card, uint64_t bytes);
/* Takes memory for the driver itself. */
uint32_t memory_set_aside(struct sim *sim, uint32_t card, uint64_t bytes, struct memory **memory);
void memory_release(struct sim *sim, struct memory *memory);

/* page_tables.c */
#define SIM_ADDRESSES (1ull << 47) /* of a card, in bytes */
uint32_t tables_fill_pool(struct sim *sim, uint32_t card, uint64_t bytes);
/* Take page tables for a new address space, or for a reservation of addresses. */
uint32_t tables_of_space(struct sim *sim, struct object *space);
/* space: NULL for the device's own. */
uint32_t tables_of_addresses(
	struct sim *sim, struct object *addresses, const struct object *space, const struct memory_request *request);
/* Gives back the page tables of an object that is freed. */
void tables_free(struct sim *sim, const struct object *object);

/* alloc.c: each escape_ function answers one call, without the lock; the status goes into the structure. 0 or -errno. */
int escape_alloc(struct call *call);
int escape_alloc_memory(struct call *call);
int escape_free(struct call *call);
int escape_dup(struct call *call);
uint32_t free_handle(struct sim *sim, struct client *client, uint32_t handle);
/* Set virtual memory's place, or the host's memory's backing; a failure frees the new object again. */
uint32_t memory_describe(struct sim *sim, struct object *object, struct memory_request *request);
uint32_t class_create_video_memory(struct sim *sim, struct object *parent, uint32_t handle,
	struct memory_request *request, struct object **created);
/* memory.c: checks of a caller's memory, by the old call's flags, the heap's attributes, its address and last byte. */
uint32_t pinned_check_flags(uint32_t flags);
uint32_t pinned_check_attr(uint32_t attr);
uint32_t pinned_check_range(uint64_t address, uint64_t limit);
/* class.c: whether the class exists and the caller may have it. */
uint32_t class_check(const struct alloc_request *request);
/* Bytes of parameters that the class reads; 0: none are looked at. */
uint32_t class_params_size(const struct sim *sim, uint32_t class_id);
bool class_requires_params(uint32_t class_id);
bool class_is_memory_request(uint32_t class_id);
bool class_may_be_duplicated(uint32_t class_id);
bool class_is_channel(uint32_t class_id);
bool class_is_channel_or_group(uint32_t class_id);
bool class_fits_parent(uint32_t class_id, const struct object *parent);
/* channel.c: channel groups and channels. */
uint32_t channel_create(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created);
/* export.c: objects that open files keep, of any client (rmobjexportimport.c, os.c:2166) */
struct exports {
	/* Device of all of them; NV_MAX_DEVICES: of none. */
	uint32_t device;
	uint16_t count;
	uint8_t metadata[NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE];
	/* Handles in the driver's own client; 0: nothing there. */
	uint32_t handle[];
};
/* Makes a file ready for so many; metadata may be NULL. */
uint32_t exports_prepare(struct sim *sim, const struct client *client, struct open_file *file, uint32_t device,
	uint16_t count, const uint8_t *metadata);
void exports_drop(struct sim *sim, struct open_file *file);
/* process: owner of the driver's client, if this makes the client. */
uint32_t export_object(struct sim *sim, const struct client *client, uint32_t object, pid_t process, uint32_t *handle,
	uint32_t *device);
void export_forget(struct sim *sim, uint32_t handle);
/* type may be NULL. */
uint32_t import_object(
	struct sim *sim, struct client *client, uint32_t parent, uint32_t handle, uint32_t *object, uint8_t *type);
/* heap_control.c */
int escape_heap_control(struct call *call);
/* control.c */
int escape_control(struct call *call);

/* node_calls.c: calls about the driver rather than its objects. */
int escape_card_info(struct call *call);
int escape_check_version(struct call *call);
int escape_sys_params(struct call *call);
int escape_register_fd(struct call *call);
int escape_wait_open(struct call *call);
int escape_alloc_event(struct call *call);
int escape_free_event(struct call *call);
int escape_numa_info(struct call *call);
int escape_attach_cards(struct call *call);
/* mapping.c */
/* The answer of pread(2) at MAPPING_AT, without the lock. */
int mapping_read(struct sim *sim, struct open_file *file, void *out, size_t size);

/* The function that answers a call, and the node and size that the call must have. */
enum escape_node { ON_CTL, ON_CARD, ON_ANY };
struct escape_entry {
	uint32_t nr;
	enum escape_node node;
	/* Place of the structure's size in the layouts; SIZE_OWN: the function checks the size. */
	bool of_card;
	size_t bytes_at;
	int (*answer)(struct call *call); /* NULL ends a table */
};
#define BYTES(name) false, offsetof(struct nv_abi, name.bytes)
#define CARD_BYTES(name) true, offsetof(struct card_abi, name.bytes)
#define SIZE_OWN false, SIZE_MAX

/* escape.c: one call, without the lock; 0 or -errno. */
int escape_dispatch(struct call *call);
/* ioctl.c: one ioctl of a mounted node. data: the kernel's copy of the structure, if it made one. */
int escape_ioctl(
	struct sim *sim, struct open_file *file, pid_t thread, uint32_t command, uint64_t argument, void *data);

/* doorbell.c: write(2) and read(2) of a card's node, without the lock. Bytes or -errno. */
int doorbell_write(struct sim *sim, struct open_file *file, const void *data, size_t size);
int doorbell_read(struct sim *sim, struct open_file *file, void *out, size_t size);

/* nodes.c */
struct fuse_operations;
const struct fuse_operations *node_operations(void);

#endif
