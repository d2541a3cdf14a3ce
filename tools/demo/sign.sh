#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Signs the programs, libraries and scripts of a file tree: sign.sh ROOT, with TOUCHMARK and DEMO_KEYS set.
set -eu
root=$1
start=$(date +%s%N)
"$TOUCHMARK" sign -r --key "$DEMO_KEYS/own/key.pem" --cert "$DEMO_KEYS/own/cert.pem" \
    --container xattr "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib"
end=$(date +%s%N)
echo "   in $(((end - start) / 1000000)) ms on this machine"
mkdir -p "$root/etc/touchmark" "$root/usr/local/bin"
cp "$DEMO_KEYS/own/cert.pem" "$root/etc/touchmark/cert.pem"
# One that was never signed, to try.
cp "$root/usr/bin/id" "$root/usr/local/bin/stranger"
setfattr -x user.touchmark "$root/usr/local/bin/stranger" 2>/dev/null || true
