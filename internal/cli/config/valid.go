package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// keyError is a problem with one key's value.
type keyError struct{ key, problem string }

func (e *keyError) Error() string { return e.key + ": " + e.problem }

// Validate reports everything that is wrong with c by itself, without looking
// at files or the network. The pipeline's own ranges are asked for as well.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, &keyError{key, fmt.Sprintf(format, args...)})
		}
	}
	oneOf := func(key, got string, want ...string) {
		need(slices.Contains(want, got), key, "%q, want one of %s", got, strings.Join(want, ", "))
	}
	ask := func(key string, part pipeline.Config) { // the pipeline's own opinion of one key
		if err := part.Validate(); err != nil {
			need(false, key, "%s", strings.TrimPrefix(err.Error(), "pipeline: config: "))
		}
	}
	need(c.Model != "", "model", "empty, want the path of a model file")
	need(c.NATS.logins() <= 1, "nats", "%d ways to log in (creds, nkey, user, token), want at most one", c.NATS.logins())
	need(c.NATS.Password == "" || c.NATS.User != "", "nats.password", "given without nats.user")
	need((c.NATS.TLSCert == "") == (c.NATS.TLSKey == ""), "nats.tls_cert", "want tls_cert and tls_key both or neither")
	need(c.NATS.URL != "" || c.Server.Dir != "", "server.dir", "empty, want a directory for the embedded server")
	need(c.Server.Sync == syncDefault || c.Server.Sync == SyncAlways, "server.sync", "%q, want %s or %s", c.Server.Sync, syncDefault, SyncAlways)
	need(c.Server.Port >= -1 && c.Server.Port <= 65535, "server.port", "%d, want -1 to 65535", c.Server.Port)
	oneOf("input.non_finite", c.Input.NonFinite, "reject", "hold", "zero")
	oneOf("stage.engine", c.Stage.Engine, engines.Kinds...)
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	if c.Metrics.Listen != "" {
		need(isAddress(c.Metrics.Listen), "metrics.listen", "%q, want host:port or :port, such as 127.0.0.1:9464; port 0 is a free one", c.Metrics.Listen)
	}
	oneOf("log.format", c.Log.Format, cli.FormatText, cli.FormatJSON)
	// The pipeline takes a zero for its default; a zero written in a file is
	// more likely a mistake.
	for _, k := range []struct {
		key  string
		zero bool
		part pipeline.Config
	}{
		{"job", c.Job == "", pipeline.Config{Job: c.Job}},
		{"nats.replicas", c.NATS.Replicas == 0, pipeline.Config{Replicas: c.NATS.Replicas}},
		{"input.subject", c.Input.Subject == "", pipeline.Config{InputSubject: c.Input.Subject}},
		{"input.max_message", c.Input.MaxMessage == 0, pipeline.Config{MaxMessage: c.Input.MaxMessage}},
		{"input.max_age", false, pipeline.Config{InputMaxAge: c.Input.MaxAge}},
		{"input.max_bytes", false, pipeline.Config{InputMaxBytes: c.Input.MaxBytes}},
		{"output.keep", false, pipeline.Config{OutputKeep: c.Output.Keep}},
		{"dead_letters.keep", c.DeadLetters.Keep == 0, pipeline.Config{DeadLetterKeep: c.DeadLetters.Keep}},
		{"stage.partitions", c.Stage.Partitions == 0, pipeline.Config{Partitions: c.Stage.Partitions}},
		{"stage.rows", c.Stage.Rows == 0, pipeline.Config{RowBudget: c.Stage.Rows}},
		{"stage.latency", c.Stage.Latency == 0, pipeline.Config{Latency: c.Stage.Latency}},
		{"stage.max_slots", c.Stage.MaxSlots == 0, pipeline.Config{MaxSlots: c.Stage.MaxSlots}},
		{"stage.max_streams", c.Stage.MaxStreams == 0, pipeline.Config{MaxStreams: c.Stage.MaxStreams}},
		{"input.reorder", c.Input.Reorder == 0, pipeline.Config{Reorder: c.Input.Reorder}},
		{"input.reorder_bytes", c.Input.ReorderBytes == 0, pipeline.Config{ReorderBytes: c.Input.ReorderBytes}},
		{"stage.lease", c.Stage.Lease == 0, pipeline.Config{Lease: c.Stage.Lease}},
		{"stage.snapshot_messages", c.Stage.SnapshotMessages == 0, pipeline.Config{SnapshotMessages: c.Stage.SnapshotMessages}},
		{"stage.snapshot_every", c.Stage.SnapshotEvery == 0, pipeline.Config{SnapshotEvery: c.Stage.SnapshotEvery}},
		{"stage.idle", false, pipeline.Config{Idle: c.Stage.Idle}},
		{"stage.forget", false, pipeline.Config{Idle: c.Stage.Idle, Forget: c.Stage.Forget}},
		{"stage.stop_timeout", c.Stage.StopTimeout == 0, pipeline.Config{StopTimeout: c.Stage.StopTimeout}},
	} {
		need(!k.zero, k.key, "empty or 0, want a value")
		ask(k.key, k.part)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	ask("stage.shards", c.Pipeline()) // depends on partitions as well, so it comes last
	return errors.Join(errs...)
}

// isAddress reports whether s is a host, or none, and a port's number.
func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

func (c NATSConfig) logins() int {
	n := 0
	for _, s := range []string{c.Creds, c.NKey, c.User, c.Token} {
		if s != "" {
			n++
		}
	}
	return n
}
