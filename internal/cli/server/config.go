package server

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/configcmd"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// StageConfig loads the configuration, applies its log format, and selects the external server,
// if any (see selectServer).
func StageConfig(a *cli.App, path string, flags *pflag.FlagSet, names []string) (config.Config, error) {
	if flags.Lookup("engine") != nil {
		names = append(slices.Clip(names), "engine")
	}
	c, err := configcmd.Load(path, flags, names)
	if c.Log.Format == cli.FormatJSON {
		a.LogAsJSON()
	}
	if err == nil {
		err = selectServer(a, &c)
	}
	return c, err
}

// PipelineConfig converts c for package pipeline.
func PipelineConfig(c config.Config) pipeline.Config {
	subject := c.Input.Subject
	if c.Input.Job != "" && subject == pipeline.Defaults().InputSubject { // not configured: the other job defines it
		subject = ""
	}
	return pipeline.Config{
		Input: InputOf(c.Input), Shared: pipeline.SharedInput{Job: c.Input.Job, From: c.Input.From},
		Job: c.Job, InputSubject: subject, Keys: c.Input.Keys, NonFinite: codec.NonFinite(c.Input.NonFinite),
		MaxMessage: int(c.Input.MaxMessage), InputMaxAge: c.Input.MaxAge, InputMaxBytes: max(0, int64(c.Input.MaxBytes)),
		OutputKeep: max(0, c.Output.Keep), DeadLetterKeep: c.DeadLetters.Keep, Replicas: c.NATS.Replicas,
		Partitions: c.Stage.Partitions, Shards: c.Stage.Shards, RowBudget: c.Stage.Rows, Latency: c.Stage.Latency,
		MaxSlots: c.Stage.MaxSlots, MaxStreams: c.Stage.MaxStreams, Readout: c.Stage.Readout, StopTimeout: c.Stage.StopTimeout,
		RateTolerance: c.Input.RateTolerance, Reorder: c.Input.Reorder, ReorderBytes: int(c.Input.ReorderBytes), Lease: c.Stage.Lease,
		SnapshotMessages: c.Stage.SnapshotMessages, SnapshotEvery: c.Stage.SnapshotEvery,
		Idle: c.Stage.Idle, Forget: c.Stage.Forget,
	}
}

// InputOf converts the settings of message formats.
func InputOf(c config.Input) formats.Input {
	return formats.Input{
		Format: formats.Format(c.Format), Channels: c.Channels.Map(), Rows: c.Rows, Time: c.Time, TimeUnit: c.TimeUnit, TimeStep: c.TimeStep,
		Stream: c.Stream, End: c.End, Separator: c.CSVSeparator, RawType: c.RawType,
	}
}

// NATSOptions returns the options of a named connection to a server.
func NATSOptions(c config.NATS, name string, log *slog.Logger) natsclient.Options {
	return natsclient.Options{
		URL: c.URL, Name: name, Creds: c.Creds, NKey: c.NKey, User: c.User, Password: c.Password, Token: c.Token,
		CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, TLSHandshakeFirst: c.TLSFirst, InboxPrefix: c.InboxPrefix, Log: log,
	}
}

// LogWarnings logs the path of the configuration file, the warnings of a configuration, and
// ineffective keys in the file: keys outside the groups that the command uses. Without nats.url,
// server is a used group.
func LogWarnings(c config.Config, log *slog.Logger, uses ...string) {
	if c.File != "" {
		log.Info("configuration file", "path", c.File)
	}
	for _, w := range c.Warnings() {
		log.Warn(w)
	}
	uses = append(uses, "job", "nats", "log")
	if c.NATS.URL == "" {
		uses = append(uses, "server")
	}
	unused := c.Unused(uses...)
	if len(unused) > 0 {
		log.Info("keys of the configuration file without an effect on this command; server.* has none with nats.url", "keys", strings.Join(unused, ","))
	}
}
