// SPDX-License-Identifier: GPL-2.0
/* The container of the current task, and the end of identities. */
#include "identity/records.h"

bool km_identity_any(void)
{
	return identity_entries_any() || expected_any();
}

int km_identity_find(struct km_identity *identity)
{
	int err = 0;

	if (km_identity_of_current(identity))
		return 1;
	if (!km_identity_unbound())
		return 0;
	mutex_lock(&identity_lock);
	/* Another thread may have found it meanwhile. */
	if (!km_identity_of_current(identity))
		err = expected_find_current();
	mutex_unlock(&identity_lock);
	return err ? err : km_identity_of_current(identity);
}

u32 km_identity_sweep(struct km_engine *engine)
{
	u32 left;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&identity_lock);
	left = records_sweep(engine);
	expected_sweep(engine);
	left |= expected_any();
	mutex_unlock(&identity_lock);
	if (!left)
		km_engine_unpin(KM_PIN_CONTAINERS);
	return left;
}

void km_identity_exit(void)
{
	km_identity_forget();
	mutex_lock(&identity_lock);
	records_exit();
	expected_exit();
	mutex_unlock(&identity_lock);
}
