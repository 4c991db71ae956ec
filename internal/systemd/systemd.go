// Package systemd reports the state of the program to the service manager: readiness, status,
// keep-alive, stopping. Without a service manager (NOTIFY_SOCKET is not set) the package does
// nothing.
//
// The protocol is sd_notify(3).
package systemd

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusEvery is the interval of status reports; a watchdog may require a shorter interval.
const statusEvery = 10 * time.Second

// Notify reports readiness, then a one-line status until ctx ends, then stopping. With a
// watchdog (WatchdogSec= of the unit), it reports three times as often as required. If the
// function status hangs, the reports stop, and systemd restarts the program.
func Notify(ctx context.Context, log *slog.Logger, status func() string) {
	interval := statusEvery
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog interval cannot be read: this program sends no keep-alive reports", "err", err)
	} else if watchdog > 0 {
		interval = min(interval, watchdog/3)
	}
	warned := false
	notify := func(state ...string) bool {
		sent, err := daemon.SdNotify(false, strings.Join(state, "\n"))
		if err != nil && !warned {
			warned = true
			log.Warn("the service manager does not accept the reports of this program: check NotifyAccess= and the sandbox of the unit", "err", err)
		}
		return sent || err != nil
	}
	statusLine := func() string { return "STATUS=" + strings.Join(strings.Fields(status()), " ") }
	if !notify(daemon.SdNotifyReady, statusLine()) {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			notify(daemon.SdNotifyStopping, "STATUS=stopping")
			return
		case <-tick.C:
			notify(daemon.SdNotifyWatchdog, statusLine())
		}
	}
}
