// Package systemd tells the service manager that started the program how it is:
// that it is ready, what it does, that it still answers, that it stops. Where no
// service manager asks (NOTIFY_SOCKET is not set), it does nothing.
//
// The protocol is that of sd_notify(3).
package systemd

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusEvery is how often the status is told, where no watchdog wants to hear more
// often.
const statusEvery = 10 * time.Second

// Follow says that the program is ready, and from then on its status, a line, until
// ctx ends; then that it stops. With a watchdog (WatchdogSec= of the unit), it
// tells that the program answers three times as often as the watchdog asks for. A
// status that never returns therefore ends the program, and systemd starts it again.
func Follow(ctx context.Context, log *slog.Logger, status func() string) {
	every := statusEvery
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog's time cannot be read: this program does not answer it", "err", err)
	} else if watchdog > 0 {
		every = min(every, watchdog/3)
	}
	told := false
	tell := func(state ...string) bool {
		sent, err := daemon.SdNotify(false, strings.Join(state, "\n"))
		if err != nil && !told {
			told = true
			log.Warn("the service manager does not take what this program tells it: check NotifyAccess= and the sandbox of the unit", "err", err)
		}
		return sent || err != nil
	}
	line := func() string { return "STATUS=" + strings.Join(strings.Fields(status()), " ") }
	if !tell(daemon.SdNotifyReady, line()) {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			tell(daemon.SdNotifyStopping, "STATUS=stopping")
			return
		case <-tick.C:
			tell(daemon.SdNotifyWatchdog, line())
		}
	}
}
