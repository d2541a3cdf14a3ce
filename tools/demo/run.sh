#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The demonstration: a Debian file tree is signed here, then a stock kernel enforces it in a virtual machine.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}/release
export TOUCHMARK="$PWD/$target/touchmark"
case $target in /*) TOUCHMARK=$target/touchmark ;; esac

DEMO_KEYS=$(mktemp -d)
export DEMO_KEYS
trap 'rm -rf "$DEMO_KEYS"' EXIT
trap 'exit 130' INT TERM

echo "== a key, and a certificate that says whose it is"
"$TOUCHMARK" key generate --out "$DEMO_KEYS/own" --name "Demonstration"
echo
echo "== a Debian file tree (fetched once, kept in the cache), signed"
"$target/touchmark-vm" demo --prepare tools/demo/sign.sh tools/demo/guest.sh
