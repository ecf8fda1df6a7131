// SPDX-License-Identifier: Apache-2.0
/* Parts that clients of the driver share in tests. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"

void client_begin(struct settings *settings, int *argc, char ***argv, int needed)
{
	int ctl;

	*settings = (struct settings){ .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
	setvbuf(stdout, NULL, _IOLBF, 0);
	++*argv;
	--*argc;
	if (*argc > 1 && strcmp((*argv)[0], "--dev") == 0) {
		settings->dev = (*argv)[1];
		*argv += 2;
		*argc -= 2;
	}
	if (*argc < needed)
		exit(2);
	ctl = driver_open(settings, "nvidiactl");
	if (ctl < 0 || !driver_version(settings, ctl)) {
		fprintf(stderr, "%s/nvidiactl: %s\n", settings->dev, strerror(errno));
		exit(1);
	}
	close(ctl);
}

int client_control_file(const struct settings *settings)
{
	int ctl = driver_open(settings, "nvidiactl");

	if (ctl < 0) {
		perror("nvidiactl");
		exit(1);
	}
	return ctl;
}

void client_open(struct session *session, const struct settings *settings)
{
	uint32_t status;

	session_init(session, settings, 0);
	status = session_open(session);
	if (status != NV_OK) {
		fprintf(stderr, "client: status 0x%x: %s\n", status, strerror(errno));
		exit(1);
	}
}

struct rm_ioctl client_memory_ioctl(
	const struct session *session, uint32_t handle, uint8_t params[CLIENT_PARAMS], uint64_t bytes)
{
	const struct settings *settings = session->settings;
	struct rm_ioctl io = rm_alloc_ioctl(settings->abi, settings->via, session->client, session->device, handle,
		NV01_MEMORY_LOCAL_USER, params, settings->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes);

	rm_memory_params(params, settings->abi, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT, bytes);
	return io;
}

uint32_t client_memory(struct session *session, uint32_t handle, uint64_t bytes)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };
	struct rm_ioctl io = client_memory_ioctl(session, handle, params, bytes);

	return driver_make(session->settings, session->ctl, &io);
}

uint32_t client_host_memory(struct session *session, uint32_t handle, uint64_t bytes)
{
	const struct nv_abi *abi = session->settings->abi;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	rm_memory_params(params, abi,
		NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT |
			NVOS32_ATTR_COHERENCY_CACHED << NVOS32_ATTR_COHERENCY_SHIFT,
		bytes);
	return session_alloc(
		session, session->device, NV01_MEMORY_SYSTEM, params, abi->NV_MEMORY_ALLOCATION_PARAMS.bytes, &handle);
}

uint32_t client_device(struct session *session, uint32_t handle)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	return session_alloc(session, session->client, NV01_DEVICE_0, params,
		session->settings->abi->NV0080_ALLOC_PARAMETERS.bytes, &handle);
}

uint32_t client_space(struct session *session, uint32_t handle)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	return session_alloc(session, session->device, FERMI_VASPACE_A, params,
		session->settings->abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes, &handle);
}

uint32_t client_group(struct session *session, uint32_t device, uint32_t handle, uint32_t space)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&session->settings->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->hVASpace, space);
	return session_alloc(session, device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, &handle);
}

#define CHANNEL_ENTRIES 64u
#define USERD 0x5c000001u
#define USERD_BYTES 4096u

uint32_t client_channel(struct session *session, uint32_t parent, uint32_t handle, uint8_t params[CLIENT_PARAMS])
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&session->settings->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->gpFifoEntries, CHANNEL_ENTRIES);
	if (!get32(params, at->hUserdMemory)) {
		/* The second channel finds the first one's. Driver 595 makes no channel without USERD of its client. */
		client_host_memory(session, USERD, USERD_BYTES);
		put32(params, at->hUserdMemory, USERD);
	}
	return session_alloc(session, parent, TURING_CHANNEL_GPFIFO_A, params, at->bytes, &handle);
}

uint32_t client_dup(struct session *session, uint32_t handle, uint32_t source_client, uint32_t source)
{
	struct rm_ioctl io =
		rm_dup_ioctl(session->settings->abi, session->client, session->device, handle, source_client, source);

	return driver_make(session->settings, session->ctl, &io);
}

/* The driver pins only cached pages, contiguous or not, and maps them nowhere by itself. */
#define PIN_FLAGS                                                                          \
	(NVOS02_FLAGS_LOCATION_PCI << NVOS02_FLAGS_LOCATION_SHIFT |                        \
		NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS << NVOS02_FLAGS_PHYSICALITY_SHIFT | \
		NVOS02_FLAGS_COHERENCY_CACHED << NVOS02_FLAGS_COHERENCY_SHIFT |            \
		NVOS02_FLAGS_MAPPING_NO_MAP << NVOS02_FLAGS_MAPPING_SHIFT)

uint32_t client_pin(struct session *session, uint32_t handle, void *memory, uint64_t bytes)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&session->settings->abi->nv_ioctl_nvos02_parameters_with_fd;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->params_hRoot, session->client);
	put32(data, at->params_hObjectParent, session->device);
	put32(data, at->params_hObjectNew, handle);
	put32(data, at->params_hClass, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR);
	put32(data, at->params_flags, PIN_FLAGS);
	put64(data, at->params_pMemory, (uintptr_t)memory);
	put64(data, at->params_limit, bytes - 1);
	put32(data, at->fd, UINT32_MAX);
	status = driver_call(session->settings, session->card, NV_ESC_RM_ALLOC_MEMORY, data, at->bytes);
	return status != NV_OK ? status : get32(data, at->params_status);
}

uint32_t client_map_memory(struct session *session, uint32_t parent, uint32_t handle, int file, uint64_t bytes)
{
	const struct nv_layout_nv_ioctl_nvos33_parameters_with_fd *at =
		&session->settings->abi->nv_ioctl_nvos33_parameters_with_fd;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->params_hClient, session->client);
	put32(data, at->params_hDevice, parent);
	put32(data, at->params_hMemory, handle);
	put64(data, at->params_length, bytes);
	put32(data, at->fd, (uint32_t)file);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_MAP_MEMORY, data, at->bytes);
	return status != NV_OK ? status : get32(data, at->params_status);
}

volatile uint64_t *client_map_file(int file, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	return at == MAP_FAILED ? NULL : at;
}

static sigjmp_buf not_mapped;

static void leave_look(int number)
{
	(void)number;
	siglongjmp(not_mapped, 1);
}

uint64_t client_look(volatile uint64_t *at, uint64_t put)
{
	uint64_t found;

	signal(SIGBUS, leave_look);
	if (!at || sigsetjmp(not_mapped, 1))
		return 0;
	found = *at;
	if (put)
		*at = put;
	return found;
}

uint64_t client_fill(struct session *session, uint64_t piece)
{
	uint64_t bytes, count;

	memory_fill(session, piece, &bytes, &count);
	return bytes;
}

#define CLIENT_MANAGED_PIECE (2ul << 20)

uint8_t *client_reserve(uint64_t size)
{
	uint8_t *all =
		mmap(NULL, size + CLIENT_MANAGED_PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	return all + (CLIENT_MANAGED_PIECE - (uintptr_t)all % CLIENT_MANAGED_PIECE) % CLIENT_MANAGED_PIECE;
}

bool client_map_managed(const struct settings *settings, int uvm, uint8_t *place, uint64_t size)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &settings->abi->UVM_INITIALIZE_PARAMS;
	uint8_t params[32] = { 0 };

	if (uvm < 0 || ioctl(uvm, UVM_INITIALIZE, params) != 0 || get32(params, at->rmStatus) != NV_OK)
		return false;
	return mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)(uintptr_t)place) == place;
}

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(CLIENT_FILES_MAX * sizeof(int))];
};

bool client_send_files(int sock, const int *files, size_t count)
{
	union control control = { .head = { CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec data = { (char[1]){ 'x' }, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };

	message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	memcpy(CMSG_DATA(&control.head), files, count * sizeof(int));
	return sendmsg(sock, &message, 0) == 1;
}

bool client_receive_files(int sock, int *files, size_t count)
{
	union control control = { 0 };
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };

	message.msg_controllen = sizeof(control.space);
	if (recvmsg(sock, &message, 0) != 1)
		return false;
	memcpy(files, CMSG_DATA(&control.head), count * sizeof(int));
	return true;
}

static int socket_at(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

int client_hand_out(const char *path, const char *word, const int *files, size_t count)
{
	struct sockaddr_un address;
	int sock = socket_at(path, &address), other;

	if (bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return -1;
	printf("%s\n", word);
	fflush(stdout);
	other = accept(sock, NULL, NULL);
	return client_send_files(other, files, count) ? other : -1;
}

int client_fetch(const char *path, int *files, size_t count)
{
	struct sockaddr_un address;
	int sock = socket_at(path, &address);

	if (connect(sock, (void *)&address, sizeof(address)) || !client_receive_files(sock, files, count))
		return -1;
	return sock;
}

void client_next(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (byte == '\n')
			return;
	_exit(0);
}

void client_rest(void)
{
	for (;;)
		pause();
}

/* A signal handler has no other way to count. */
static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
	alarms++;
}

long client_alarms(void)
{
	return (long)alarms;
}

void client_rain(int flags, int microseconds)
{
	struct sigaction action = { .sa_handler = count_alarm, .sa_flags = flags };
	struct itimerval timer = { .it_interval.tv_usec = microseconds };

	sigaction(SIGALRM, &action, NULL);
	timer.it_value = timer.it_interval;
	setitimer(ITIMER_REAL, &timer, NULL);
}
