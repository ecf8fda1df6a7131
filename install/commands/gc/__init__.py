# SPDX-License-Identifier: Apache-2.0
"""cgpu gc: registrations whose container is gone are taken out of the engine."""
