#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fetches from Debian what the virtual machines are made of, into the cache; a second run needs no network.
#   tools/fetch-debian.sh [--refresh] [kernels|tree]
# Needs no root. The mirrors are those of the system's apt, or TOUCHMARK_MIRROR and TOUCHMARK_SECURITY_MIRROR.
# The cache is TOUCHMARK_CACHE, else touchmark in XDG_CACHE_HOME or in ~/.cache.
set -eu
exec "${CARGO:-cargo}" run --quiet --manifest-path "$(dirname "$0")/../Cargo.toml" -p touchmark-vm --bin touchmark-vm -- fetch "$@"
