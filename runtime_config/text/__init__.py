# SPDX-License-Identifier: Apache-2.0
"""Settings edited as text: what is not ours keeps its every byte."""
