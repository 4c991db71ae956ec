#!/bin/sh
# Runs in a booted Debian, as root, with the package installed and a model and an archive in
# /etc/eusn-stream. It says what it found; its last line is "proved", or why not.
set -u
fail() { echo "failed: $*"; systemctl --no-pager status $stage eusn-stream-gateway; journalctl --no-pager -n 40; exit 1; }
await() { # SECONDS WHAT COMMAND...
	end=$(($(date +%s) + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do [ "$(date +%s)" -lt $end ] || fail "$what"; sleep 1; done
}
says() { systemctl show -p StatusText --value "$1" | grep -Eq "$2"; }
predictions() { systemctl show -p StatusText --value $stage | sed -n 's/.* \([0-9]*\) predictions.*/\1/p'; }
more() { [ "$(predictions)" -gt "$before" ]; }
feed() { # sends samples until there are more predictions than before
	before=$(predictions)
	eusn-stream replay /etc/eusn-stream/machine.parquet --progress none >/dev/null 2>&1 || fail "samples cannot be sent"
	await 120 "no predictions come" more
}
pid() { systemctl show -p MainPID --value $1; }
crash() { # ends a service as a watchdog, a panic and exhausted memory end it; systemd must start it again
	was=$(pid $1)
	kill -ABRT "$was"
	await 180 "$1 is not started again after SIGABRT" other $1 "$was"
	cp /usr/bin/eusn-stream /sound
	cp /planted /usr/bin/eusn-stream.new && mv /usr/bin/eusn-stream.new /usr/bin/eusn-stream
	systemctl restart $1 || fail "$1 with a planted panic does not start"
	for signal in USR1 USR2; do # a panic; an allocation larger than the memory
		was=$(pid $1)
		kill -$signal "$was"
		await 180 "$1 is not started again after a crash ($signal)" other $1 "$was"
	done
	cp /sound /usr/bin/eusn-stream.new && mv /usr/bin/eusn-stream.new /usr/bin/eusn-stream
	systemctl restart $1 || fail "$1 does not start"
	[ "$(journalctl --no-pager -u $1 | grep -c 'code=exited, status=2')" -ge 3 ] || fail "$1 did not end with 2, as Go does"
	echo "$1: started again after SIGABRT, a panic and exhausted memory"
}
other() { [ "$(pid $1)" != "$2" ] && [ "$(pid $1)" != 0 ] && systemctl is-active -q $1; }

mkdir -p /home/somebody && echo secret >/home/somebody/secret && echo secret >/root/secret && echo secret >/tmp/of-others
stage=eusn-stream
for unit in eusn-stream eusn-stream-gateway eusn-stream-alarms eusn-stream-edge; do
	mkdir -p /etc/systemd/system/$unit.service.d
	printf '[Service]\nExecStartPost=/bin/sh -c "/probe.sh >/var/lib/%s/probed"\n' "$(sed -n 's/^StateDirectory=//p' /usr/lib/systemd/system/$unit.service)" >/etc/systemd/system/$unit.service.d/probe.conf
done
systemctl daemon-reload
/probe.sh >/outside
grep '^denied' /outside | sed 's/^denied /here not even root may, so it proves nothing: /'

for unit in eusn-stream eusn-stream-gateway eusn-stream-alarms eusn-stream-edge; do
	[ $unit != eusn-stream-edge ] || stage=eusn-stream-edge # which ends eusn-stream
	systemctl start $unit || fail "$unit does not start"
	directory=/var/lib/$(sed -n 's/^StateDirectory=//p' /usr/lib/systemd/system/$unit.service)
	n=0
	while read -r verdict what; do
		case $what in
		"its own directory" | "the network (AF_INET)") [ $verdict = allowed ] || fail "$unit: denied $what" ;;
		*)
			[ $verdict = denied ] || fail "$unit: allowed $what"
			grep -qxF "allowed $what" /outside && n=$((n + 1))
			;;
		esac
	done <"$directory/probed"
	[ $n -ge 18 ] || fail "$unit: only $n probes show something"
	rm "$directory/probed"
	echo "$unit: runs as user $(stat -c %u "/proc/$(pid $unit)"), $n things denied, $(systemctl show -p StatusText --value $unit)"
	case $unit in eusn-stream | eusn-stream-edge) feed; echo "$unit: predicts in its sandbox, $(predictions) predictions" ;; esac
	if [ $unit = eusn-stream-alarms ]; then # the package is replaced under the services, and back
		for package in /older.deb /package.deb /older.deb /package.deb; do
			was=$(pid eusn-stream) wasg=$(pid eusn-stream-gateway)
			dpkg -i $package >/dev/null 2>&1 || fail "dpkg -i $package"
			await 60 "the stage is not started again by $package" other eusn-stream "$was"
			await 60 "the gateway is not started again by $package" other eusn-stream-gateway "$wasg"
		done
		echo "the package was replaced four times, and the services started again"
		was=$(pid eusn-stream)
		kill -9 "$was"
		await 60 "a killed stage is not started again" other eusn-stream "$was"
		echo "a killed stage was started again"
		for unit in eusn-stream eusn-stream-gateway eusn-stream-alarms; do crash $unit; done
		unit=eusn-stream-alarms
	fi
done
systemctl is-active -q eusn-stream && fail "the stage runs beside that of the edge box"
systemctl stop eusn-stream-edge eusn-stream-gateway eusn-stream-alarms || fail "services do not stop"
for unit in eusn-stream-edge eusn-stream-gateway eusn-stream-alarms; do
	[ "$(systemctl show -p Result --value $unit)" = success ] || fail "$unit ended with $(systemctl show -p Result --value $unit)"
done
echo proved
