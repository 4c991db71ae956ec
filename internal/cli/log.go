package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/cli/term"
)

// Values of log.format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Logger makes the log of a command on standard error.
func (a *App) Logger(atLeast, format string) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(atLeast)); err != nil {
		panic("BUG: log level passed Validate: " + err.Error())
	}
	if a.Quiet {
		level = max(level, slog.LevelError)
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Value.Kind() == slog.KindAny {
			if err, is := attr.Value.Any().(error); is {
				attr.Value = slog.StringValue(ErrorText(err))
			}
		}
		return attr
	}}
	if format == FormatJSON {
		w := a.Stderr
		if a.records != nil {
			w = a.records // lines of JSON need not be made such
		}
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, opts))
}

// LogAsJSON makes everything on standard error lines of JSON from here on, the
// log and the messages for people: log.format is json. With EUSN_LOG_FORMAT=json
// this is so from the first line.
func (a *App) LogAsJSON() {
	if a.records == nil {
		a.records = a.Stderr
		a.Stderr = term.NewJSONLines(a.records)
	}
}

// LogFormat is the format of the log without a configuration.
func (a *App) LogFormat() string {
	if a.records != nil {
		return FormatJSON
	}
	return FormatText
}

// tell prints the end of a command: in a line or two for people, or a record, also with --json.
func (a *App) tell(message, next string, code int) {
	next = a.Advice(next)
	w := a.records
	if w == nil && a.JSON {
		w = a.Stderr
	}
	if w == nil {
		io.WriteString(a.Stderr, "eusn-stream: "+message+"\n")
		if next != "" {
			io.WriteString(a.Stderr, "try: "+next+"\n")
		}
		return
	}
	log := slog.New(slog.NewJSONHandler(w, nil))
	attrs := []any{"exit_code", code}
	if next != "" {
		attrs = append(attrs, "try", next)
	}
	log.Error(message, attrs...)
}

// EnvPrefix begins the names of all environment variables of the program.
const EnvPrefix = "EUSN"

// AsksForJSON reports whether the environment does, before any configuration
// is read.
func AsksForJSON() bool { return os.Getenv(EnvPrefix+"_LOG_FORMAT") == FormatJSON }
