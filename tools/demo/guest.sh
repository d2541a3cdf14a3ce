#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The demonstration's part inside the machine. The tree is signed; nothing is enforced yet.
set -u
failed=0
cert=/etc/touchmark/cert.pem
work=/var/tmp/demo
stranger=/usr/local/bin/stranger
mkdir -p $work/lib

say() { printf '\n== %s\n' "$*"; }

# Runs a command that must succeed.
works() {
    if output=$("$@" 2>&1); then
        printf '   runs:    %-38s %s\n' "$*" "$(head -n 1 <<<"$output" | cut -c 1-60)"
    else
        printf '   FAILED:  %s: %s\n' "$*" "$output"
        failed=1
    fi
}

# Runs a command that must be refused, by the kernel and for no other reason.
refused() {
    local status=0
    output=$("$@" 2>&1) || status=$?
    if [ $status != 0 ] && grep -q -e 'Operation not permitted' -e 'failed to map segment' <<<"$output"; then
        printf '   refused: %-38s %s\n' "$*" "$(tail -n 1 <<<"$output" | sed 's/.*: line [0-9]*: //' | cut -c 1-100)"
    else
        printf '   FAILED:  %s ended with %s: %s\n' "$*" $status "$output"
        failed=1
    fi
}

# Changes one bit in the middle of a file, in place.
flip() {
    local middle=$(($(stat -c %s "$1") / 2))
    local byte
    byte=$(od -An -tu1 -j $middle -N 1 "$1")
    # shellcheck disable=SC2059  # the byte is made here
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$1" bs=1 seek=$middle conv=notrunc status=none
}

# Microseconds for one start of /bin/true, over 40 of them.
measure() {
    local begin=${EPOCHREALTIME/./}
    for _ in {1..40}; do /bin/true; done
    echo $(((${EPOCHREALTIME/./} - begin) / 40))
}

median() { printf '%s\n' "$@" | sort -n | sed -n "$(((($# + 1) / 2)))p"; }

say "a stock Debian kernel: $(uname -r)"
touchmark doctor | tail -n 1

say "before: everything runs, the unsigned stranger too"
works $stranger

say "a trial run: permissive blocks nothing and tells what it would block"
touchmark enforce --cert $cert --mode permissive
works $stranger

say "for the whole machine"
touchmark enforce || failed=1
works ls /
works python3 -c 'print("python runs, with its libraries")'
works perl -e 'print "so does perl\n"'
works openssl version
refused $stranger

say "a program with one bit changed"
# Copies carry the signature, as archives with extended attributes do.
cp --preserve=xattr,mode /usr/bin/date $work/date
works $work/date --utc +%Y
flip $work/date
refused $work/date
refused /lib64/ld-linux-x86-64.so.2 $work/date
flip $work/date
works $work/date --utc +%Y

say "a library with one bit changed"
library=$(ldd /usr/bin/openssl | grep -o '/[^ ]*libcrypto[^ ]*')
cp -L --preserve=xattr,mode "$library" $work/lib/
export LD_LIBRARY_PATH=$work/lib
works openssl version
flip $work/lib/"$(basename "$library")"
refused openssl version
flip $work/lib/"$(basename "$library")"
works openssl version
unset LD_LIBRARY_PATH

say "a script with one bit changed"
cp --preserve=xattr,mode "$(command -v ldd)" $work/script
works $work/script --version
flip $work/script
refused $work/script --version
flip $work/script
works $work/script --version

say "what the kernel reported"
# The daemon writes them down as they come.
for _ in {1..50}; do
    [ "$(touchmark events | grep -c denied)" -ge 5 ] && break
done
touchmark events | grep denied | sed 's/^/   /' | cut -c 1-150

say "what it costs: starting /bin/true, without and with, in turn"
touchmark status | sed 's/^/   /'
on=() off=()
measure >/dev/null
for _ in {1..5}; do
    on+=("$(measure)")
    touchmark enforce --mode off --quiet
    off+=("$(measure)")
    touchmark enforce --cert $cert --quiet
done
echo "   median of 5: $(median "${off[@]}") us without, $(median "${on[@]}") us enforced"
echo "   all: without ${off[*]}; enforced ${on[*]}"
echo "   (emulated processors are slow and noisy; 'make bench' counts instructions)"

say "and off again"
touchmark enforce --mode off
works $stranger
exit $failed
