package fleet

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// mostText is how many bytes of what a process says in one piece are kept.
const mostText = 500

// Journal remembers the last warnings and errors of a log. The zero value is ready. No
// goroutine waits for another one.
type Journal struct {
	said atomic.Pointer[[]Said] // the newest first; replaced, never changed
}

// Last are the warnings and errors, the newest first, at most MostErrors.
func (j *Journal) Last() []Said {
	if said := j.said.Load(); said != nil {
		return *said
	}
	return nil
}

// Beside is a log that writes to another one, and remembers.
func (j *Journal) Beside(log *slog.Logger) *slog.Logger {
	return slog.New(&journalist{to: log.Handler(), journal: j})
}

func (j *Journal) add(now Said) {
	for {
		old := j.said.Load()
		next := []Said{now}
		if old != nil {
			before := *old
			if before[0].Text == now.Text && before[0].Level == now.Level {
				next[0].Times += before[0].Times
				before = before[1:]
			}
			next = append(next, before[:min(len(before), MostErrors-1)]...)
		}
		if j.said.CompareAndSwap(old, &next) {
			return
		}
	}
}

// journalist is the log's handler.
type journalist struct {
	to      slog.Handler
	journal *Journal
	with    string // attributes that all of its records have
	group   string
}

// Enabled implements slog.Handler: also what the log itself leaves out is remembered.
func (h *journalist) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.to.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *journalist) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var b strings.Builder
		b.WriteString(r.Message)
		b.WriteString(h.with)
		r.Attrs(func(a slog.Attr) bool {
			write(&b, h.group, a)
			return b.Len() < mostText
		})
		level := slog.LevelWarn
		if r.Level >= slog.LevelError {
			level = slog.LevelError
		}
		h.journal.add(Said{Time: r.Time, Level: level.String(), Text: cut(b.String(), mostText), Times: 1})
	}
	if !h.to.Enabled(ctx, r.Level) {
		return nil
	}
	return h.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *journalist) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.with)
	for _, a := range attrs {
		write(&b, h.group, a)
	}
	return &journalist{h.to.WithAttrs(attrs), h.journal, cut(b.String(), mostText), h.group}
}

// WithGroup implements slog.Handler.
func (h *journalist) WithGroup(name string) slog.Handler {
	return &journalist{h.to.WithGroup(name), h.journal, h.with, h.group + name + "."}
}

// write adds an attribute.
func write(b *strings.Builder, group string, a slog.Attr) {
	b.WriteString(" ")
	b.WriteString(group + a.Key)
	b.WriteString("=")
	b.WriteString(a.Value.Resolve().String())
}

// cut makes a text one line of at most so many bytes, in valid UTF-8.
func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return wire.OneLine(s)
}
