package certs

import (
	"context"
	"log/slog"
	"time"
)

const (
	// WarnBefore is how long before its end a certificate is warned of.
	WarnBefore = 30 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// Use is a certificate that a process uses: the key of the configuration that names its
// file, and the file.
type Use struct{ Key, File string }

// Expiry is when a certificate ends.
type Expiry struct {
	Use string    // key of the configuration
	End time.Time // zero: it is not known
}

// Watch knows the certificates that a process uses. Its zero value has none.
type Watch struct {
	uses []Use
	log  *slog.Logger
}

// NewWatch is a Watch of those uses that have a file.
func NewWatch(log *slog.Logger, uses ...Use) *Watch {
	w := &Watch{log: log}
	for _, u := range uses {
		if u.File != "" {
			w.uses = append(w.uses, u)
		}
	}
	return w
}

// Expiries reads when the certificates end: those that the files have now.
func (w *Watch) Expiries() []Expiry {
	if w == nil {
		return nil
	}
	all := make([]Expiry, len(w.uses))
	for i, u := range w.uses {
		all[i].Use = u.Key
		all[i].End, _ = ReadEnd(u.File) // who uses it reports why it cannot be read
	}
	return all
}

// Run warns once a day of certificates that end soon or have ended, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	for {
		w.warn(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watch) warn(now time.Time) {
	for i, e := range w.Expiries() {
		left, args := e.End.Sub(now), []any{"key", e.Use, "certificate", w.uses[i].File, "until", e.End.UTC().Format(time.RFC3339)}
		switch {
		case e.End.IsZero():
			w.log.Warn("the end of a certificate cannot be read", args[:4]...)
		case left <= 0:
			w.log.Error("a certificate has expired: nobody accepts it. Renew it (eusn-stream config init --secure --renew, for a certificate that it has made)", args...)
		case left < WarnBefore:
			w.log.Warn("a certificate expires soon. Renew it (eusn-stream config init --secure --renew, for a certificate that it has made)", append(args, "days", int(left.Hours()/24))...)
		}
	}
}
