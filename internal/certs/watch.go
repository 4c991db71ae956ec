package certs

import (
	"context"
	"log/slog"
	"time"
)

const (
	// WarnBefore is the time between the first warning and the expiry of a certificate.
	WarnBefore = 30 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// Use is a certificate of a process: its configuration key, and its file.
type Use struct{ Key, File string }

// Expiry is the end of a certificate.
type Expiry struct {
	Use string    // configuration key
	End time.Time // zero if unknown
}

// Watch lists the certificates of a process. The zero value has no certificates.
type Watch struct {
	uses []Use
	log  *slog.Logger
}

// NewWatch returns a Watch of the uses with a file.
func NewWatch(log *slog.Logger, uses ...Use) *Watch {
	w := &Watch{log: log}
	for _, u := range uses {
		if u.File != "" {
			w.uses = append(w.uses, u)
		}
	}
	return w
}

// Expiries reads the ends of the certificates from the current files.
func (w *Watch) Expiries() []Expiry {
	if w == nil {
		return nil
	}
	all := make([]Expiry, len(w.uses))
	for i, u := range w.uses {
		all[i].Use = u.Key
		all[i].End, _ = ReadExpiry(u.File) // the user of the file reports the read error
	}
	return all
}

// Run logs expired and soon expiring certificates once a day until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	for {
		w.logExpiring(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watch) logExpiring(now time.Time) {
	for i, e := range w.Expiries() {
		remaining, args := e.End.Sub(now), []any{"key", e.Use, "certificate", w.uses[i].File, "until", e.End.UTC().Format(time.RFC3339)}
		switch {
		case e.End.IsZero():
			w.log.Warn("the end of a certificate cannot be read", args[:4]...)
		case remaining <= 0:
			w.log.Error("a certificate has expired: clients refuse it. Renew it (docs/secure.md)", args...)
		case remaining < WarnBefore:
			w.log.Warn("a certificate expires soon. Renew it (docs/secure.md)", append(args, "days", int(remaining.Hours()/24))...)
		}
	}
}
