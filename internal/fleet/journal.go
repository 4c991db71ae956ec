package fleet

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// mostText is the maximum size of a text, in bytes.
const mostText = 500

// Journal keeps the last warnings and errors of a log. The zero value is ready. Its methods do not
// block.
type Journal struct {
	messages atomic.Pointer[[]LogMessage] // newest first; replaced, never modified
}

// LastMessages returns the warnings and errors, newest first, at most MostErrors.
func (j *Journal) LastMessages() []LogMessage {
	if said := j.messages.Load(); said != nil {
		return *said
	}
	return nil
}

// WrapLogger returns a logger that writes to log and records warnings and errors.
func (j *Journal) WrapLogger(log *slog.Logger) *slog.Logger {
	return slog.New(&journalHandler{to: log.Handler(), journal: j})
}

func (j *Journal) addMessage(now LogMessage) {
	for {
		old := j.messages.Load()
		next := []LogMessage{now}
		if old != nil {
			before := *old
			if before[0].Text == now.Text && before[0].Level == now.Level {
				next[0].Times += before[0].Times
				before = before[1:]
			}
			next = append(next, before[:min(len(before), MostErrors-1)]...)
		}
		if j.messages.CompareAndSwap(old, &next) {
			return
		}
	}
}

// journalHandler is the logger's handler.
type journalHandler struct {
	to         slog.Handler
	journal    *Journal
	attributes string // attributes of all records
	group      string
}

// Enabled implements slog.Handler: warnings are enabled even if the wrapped handler ignores them.
func (h *journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.to.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var b strings.Builder
		b.WriteString(r.Message)
		b.WriteString(h.attributes)
		r.Attrs(func(a slog.Attr) bool {
			writeAttr(&b, h.group, a)
			return b.Len() < mostText
		})
		level := slog.LevelWarn
		if r.Level >= slog.LevelError {
			level = slog.LevelError
		}
		h.journal.addMessage(LogMessage{Time: r.Time, Level: level.String(), Text: cutLine(b.String(), mostText), Times: 1})
	}
	if !h.to.Enabled(ctx, r.Level) {
		return nil
	}
	return h.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attributes)
	for _, a := range attrs {
		writeAttr(&b, h.group, a)
	}
	return &journalHandler{h.to.WithAttrs(attrs), h.journal, cutLine(b.String(), mostText), h.group}
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.to.WithGroup(name), h.journal, h.attributes, h.group + name + "."}
}

// writeAttr appends an attribute.
func writeAttr(b *strings.Builder, group string, a slog.Attr) {
	b.WriteString(" ")
	b.WriteString(group + a.Key)
	b.WriteString("=")
	b.WriteString(a.Value.Resolve().String())
}

// cutLine returns a text as one line of a maximum number of bytes, in valid UTF-8.
func cutLine(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return wire.OneLine(s)
}
