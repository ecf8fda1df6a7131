# SPDX-License-Identifier: Apache-2.0
"""Settings edited as text: each byte that is not ours stays as it is."""
