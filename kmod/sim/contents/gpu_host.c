// SPDX-License-Identifier: Apache-2.0
/* Methods of a pushbuffer: those of the host (clc46f.h), and which engine has the others. */
#include "engines.h"
#include "gpu.h"

/* Below this a method is the host's, whatever the subchannel's class. */
#define FIRST_OF_CLASS 0x100u

bool gpu_release(
	struct sim *sim, struct gpu_channel *channel, uint64_t address, uint64_t payload, bool is_long, bool has_time)
{
	uint64_t words[2] = { payload, engines_time(sim) };
	size_t size = has_time ? sizeof(words) : is_long ? 8 : 4;

	if (!is_long)
		words[0] &= UINT32_MAX;
	if (gpu_write(sim, channel->client, channel->va_space, address, words, size))
		return true;
	gpu_fail(sim, channel, "no memory at its semaphore", address);
	return false;
}

static bool acquired(uint32_t operation, uint64_t now, uint64_t wanted, bool is_long)
{
	uint64_t less = now - wanted;

	switch (operation) {
	case NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE:
		return now == wanted;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_STRICT_GEQ:
		return now >= wanted;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_CIRC_GEQ:
		return is_long ? (int64_t)less >= 0 : (int32_t)(uint32_t)less >= 0;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_AND:
		return (now & wanted) != 0;
	default:
		return (now | wanted) != (is_long ? UINT64_MAX : UINT32_MAX);
	}
}

/* False: not yet. */
static bool acquire(struct sim *sim, struct gpu_channel *channel, uint32_t operation, uint64_t address, uint64_t wanted,
	bool is_long)
{
	uint64_t now = 0;

	if (!gpu_read(sim, channel->client, channel->va_space, address, &now, is_long ? 8 : 4)) {
		gpu_fail(sim, channel, "no memory at its semaphore", address);
		return false;
	}
	return acquired(operation, now, wanted, is_long);
}

static bool semaphore(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint32_t operation = GPU_FIELD(data, NVC46F_SEM_EXECUTE_OPERATION);
	bool is_long = GPU_FIELD(data, NVC46F_SEM_EXECUTE_PAYLOAD_SIZE) == NVC46F_SEM_EXECUTE_PAYLOAD_SIZE_64BIT;
	uint64_t address =
		GPU_ADDRESS(value, NVC46F_SEM_ADDR_HI, NVC46F_SEM_ADDR_HI_OFFSET_MASK, NVC46F_SEM_ADDR_LO) & ~3ull;
	uint64_t payload = value[NVC46F_SEM_PAYLOAD_LO / 4];

	if (is_long)
		payload |= (uint64_t)value[NVC46F_SEM_PAYLOAD_HI / 4] << 32;
	if (operation == NVC46F_SEM_EXECUTE_OPERATION_RELEASE)
		return gpu_release(sim, channel, address, payload, is_long,
			GPU_FIELD(data, NVC46F_SEM_EXECUTE_RELEASE_TIMESTAMP) != 0);
	if (operation > NVC46F_SEM_EXECUTE_OPERATION_ACQ_NOR) {
		gpu_fail(sim, channel, "a reduction on a semaphore, which this card does not do", data);
		return false;
	}
	return acquire(sim, channel, operation, address, payload, is_long);
}

/* The older four methods for the same. */
static bool old_semaphore(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t address =
		GPU_ADDRESS(value, NVC46F_SEMAPHOREA, NVC46F_SEM_ADDR_HI_OFFSET_MASK, NVC46F_SEMAPHOREB) & ~3ull;
	uint32_t payload = value[NVC46F_SEMAPHOREC / 4];

	switch (GPU_FIELD(data, NVC46F_SEMAPHORED_OPERATION)) {
	case NVC46F_SEMAPHORED_OPERATION_RELEASE:
		return gpu_release(sim, channel, address, payload, false,
			GPU_FIELD(data, NVC46F_SEMAPHORED_RELEASE_SIZE) == NVC46F_SEMAPHORED_RELEASE_SIZE_16BYTE);
	case NVC46F_SEMAPHORED_OPERATION_ACQUIRE:
		return acquire(sim, channel, NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE, address, payload, false);
	case NVC46F_SEMAPHORED_OPERATION_ACQ_GEQ:
		return acquire(sim, channel, NVC46F_SEM_EXECUTE_OPERATION_ACQ_CIRC_GEQ, address, payload, false);
	case NVC46F_SEMAPHORED_OPERATION_ACQ_AND:
		return acquire(sim, channel, NVC46F_SEM_EXECUTE_OPERATION_ACQ_AND, address, payload, false);
	default:
		gpu_fail(sim, channel, "a reduction on a semaphore, which this card does not do", data);
		return false;
	}
}

/* The methods that are read here are alike in Volta, Turing and Ampere (clc3b5.h, clc5b5.h, clc7b5.h); not in Hopper. */
static bool is_copy(uint32_t class_id)
{
	return class_id == VOLTA_DMA_COPY_A || class_id == TURING_DMA_COPY_A || class_id == AMPERE_DMA_COPY_B;
}

/* And these (clc3c0.h, clc5c0.h, clc7c0.h). */
static bool is_compute(uint32_t class_id)
{
	return class_id == VOLTA_COMPUTE_A || class_id == TURING_COMPUTE_A || class_id == AMPERE_COMPUTE_B;
}

static bool set_object(struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t class_id)
{
	channel->class_id[subchannel] = class_id;
	if (is_copy(class_id) || is_compute(class_id))
		return true;
	gpu_fail(sim, channel, "a class whose methods it does not know", class_id);
	return false;
}

static bool host_method(
	struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t method, uint32_t data)
{
	/* One set of these for all subchannels. */
	uint32_t *value = channel->value[0];

	value[method / 4] = data;
	if (method == NVC46F_SET_OBJECT)
		return set_object(sim, channel, subchannel, GPU_FIELD(data, NVC46F_SET_OBJECT_NVCLASS));
	if (method == NVC46F_SEM_EXECUTE)
		return semaphore(sim, channel, value, data);
	else if (method == NVC46F_SEMAPHORED)
		return old_semaphore(sim, channel, value, data);
	return true;
}

static void report(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t address = GPU_ADDRESS(value, NVC5C0_SET_REPORT_SEMAPHORE_A,
		NVC5C0_SET_REPORT_SEMAPHORE_A_OFFSET_UPPER_MASK, NVC5C0_SET_REPORT_SEMAPHORE_B);
	bool is_four = GPU_FIELD(data, NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE) ==
		NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE_FOUR_WORDS;

	if (GPU_FIELD(data, NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION) == NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION_RELEASE)
		gpu_release(sim, channel, address, value[NVC5C0_SET_REPORT_SEMAPHORE_C / 4], false, is_four);
}

static void compute_method(
	struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t method, uint32_t data)
{
	switch (method) {
	case NVC5C0_LAUNCH_DMA:
		gpu_inline_launch(sim, channel, value, data);
		break;
	case NVC5C0_LOAD_INLINE_DATA:
		gpu_inline_data(sim, channel, value, data);
		break;
	case NVC5C0_SET_REPORT_SEMAPHORE_D:
		report(sim, channel, value, data);
		break;
	case NVC5C0_SEND_PCAS_A:
	case NVC5C0_SET_INLINE_QMD_ADDRESS_A:
		gpu_fail(sim, channel, "a launch of a kernel, which a simulated card cannot run", data);
		break;
	default:
		/* State for kernels, which none here has. */
		break;
	}
}

bool gpu_method(struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t method, uint32_t data)
{
	uint32_t *value = channel->value[subchannel];

	/* A run of methods that each follow the one before can lead beyond the last one. */
	if (method / 4 >= GPU_METHODS) {
		gpu_fail(sim, channel, "no such method", method);
		return false;
	}
	if (method < FIRST_OF_CLASS)
		return host_method(sim, channel, subchannel, method, data);
	value[method / 4] = data;
	if (is_copy(channel->class_id[subchannel]) && method == NVC5B5_LAUNCH_DMA)
		gpu_copy_launch(sim, channel, value, data);
	else if (is_compute(channel->class_id[subchannel]))
		compute_method(sim, channel, value, method, data);
	return !channel->failed;
}
