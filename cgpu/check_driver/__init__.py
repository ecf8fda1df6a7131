# SPDX-License-Identifier: Apache-2.0
"""Whether the loaded driver understands its calls as the engine takes them."""
