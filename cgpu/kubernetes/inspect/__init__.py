# SPDX-License-Identifier: Apache-2.0
"""`kubectl inspect cgpu`: parts of a cluster's GPUs that are given out."""
