#!/bin/sh
# Tries what a program in the sandbox of a unit must not be able to do, and prints a line for
# each: "denied WHAT" or "allowed WHAT". It runs in the sandbox, after the program is ready, and
# once more outside it, as root, where these must be allowed: else the probe shows nothing.
try() { # WHAT COMMAND...
	what=$1
	shift
	if ("$@") >/dev/null 2>&1; then echo "allowed $what"; else echo "denied $what"; fi
}
socket() { perl -e 'socket(my $s, $ARGV[0], $ARGV[1], 0) or exit 1' "$1" "$2"; }
write() { (: >"$1") && rm "$1"; }
status() { grep -q "$1" /proc/self/status; }
call() { perl -e 'my ($n, @a) = map { $_ + 0 } @ARGV; exit(syscall($n, @a) == -1)' "$@"; } # x86-64

try "writing /etc" write /etc/eusn-probe
try "writing /usr" write /usr/bin/eusn-probe
try "writing /var/lib" write /var/lib/eusn-probe
try "reading a file in /home" cat /home/somebody/secret
try "reading a file in /root" cat /root/secret
try "seeing the files of others in /tmp" cat /tmp/of-others
try "seeing the processes of others" test -e /proc/1/status
try "raw network packets (AF_PACKET)" socket 17 3
try "the kernel's network settings (AF_NETLINK)" socket 16 3
try "a namespace of its own" unshare --mount true
try "mounting" mount -t tmpfs tmpfs /mnt
try "a device node" mknod /dev/shm/eusn-probe c 1 3
try "the host name" perl -e 'my $name = `hostname`; chomp $name; exit(syscall(170, $name, length $name) == -1)'
try "tracing (ptrace)" call 101 0 0 0 0
try "control groups" mkdir "/sys/fs/cgroup/systemd/eusn-probe"
try "memory that is written and run" call 9 0 4096 7 34 -1 0
try "a program that runs as its owner (setuid)" sh -c 'd=${STATE_DIRECTORY:-/run}; : >"$d/probe"; chmod u+s "$d/probe"; s=$?; rm "$d/probe"; exit $s'
try "real-time priority" chrt -f 1 true
try "keeping a personality of its own" setarch -R true
try "capabilities" status '^CapBnd:.*[1-9a-f]'
try "new privileges" status '^NoNewPrivs:.0'
try "being root" test "$(id -u)" = 0
# And what it must be able to do.
try "its own directory" write "${STATE_DIRECTORY:-/run}/eusn-probe"
try "the network (AF_INET)" socket 2 1
