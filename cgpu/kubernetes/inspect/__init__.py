# SPDX-License-Identifier: Apache-2.0
"""`kubectl inspect cgpu`: what is given out of the GPUs of a cluster."""
