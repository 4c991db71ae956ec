package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// Config is the stage's configuration: what default.yaml documents key by key.
// It holds no resources.
type Config struct {
	Job         string            `mapstructure:"job"`
	Model       string            `mapstructure:"model"`
	NATS        NATSConfig        `mapstructure:"nats"`
	Server      ServerConfig      `mapstructure:"server"`
	Input       InputConfig       `mapstructure:"input"`
	Output      OutputConfig      `mapstructure:"output"`
	DeadLetters DeadLettersConfig `mapstructure:"dead_letters"`
	Stage       StageConfig       `mapstructure:"stage"`
	Log         LogConfig         `mapstructure:"log"`

	Metrics MetricsConfig `mapstructure:"metrics"`
}

// NATSConfig says how to reach a NATS server.
type NATSConfig struct {
	URL         string `mapstructure:"url"`
	Creds       string `mapstructure:"creds"`
	NKey        string `mapstructure:"nkey"`
	User        string `mapstructure:"user"`
	Password    string `mapstructure:"password"`
	Token       string `mapstructure:"token"`
	TLSCA       string `mapstructure:"tls_ca"`
	TLSCert     string `mapstructure:"tls_cert"`
	TLSKey      string `mapstructure:"tls_key"`
	TLSFirst    bool   `mapstructure:"tls_first"`
	InboxPrefix string `mapstructure:"inbox_prefix"`
	Replicas    int    `mapstructure:"replicas"`
}

// Values of server.sync.
const (
	syncDefault = "default"
	SyncAlways  = "always"
)

// ServerConfig is the embedded server's.
type ServerConfig struct {
	Dir  string `mapstructure:"dir"`
	Port int    `mapstructure:"port"`
	Sync string `mapstructure:"sync"` // syncDefault or SyncAlways
}

// InputConfig says what comes in.
type InputConfig struct {
	Subject   string `mapstructure:"subject"`
	NonFinite string `mapstructure:"non_finite"`
	Reorder   int    `mapstructure:"reorder"`

	ReorderBytes int `mapstructure:"reorder_bytes"`

	MaxMessage int           `mapstructure:"max_message"`
	MaxAge     time.Duration `mapstructure:"max_age"`
	MaxBytes   int64         `mapstructure:"max_bytes"`
}

// OutputConfig says what is kept of what goes out.
type OutputConfig struct {
	Keep int64 `mapstructure:"keep"`
}

// DeadLettersConfig says what is kept of what could not be used.
type DeadLettersConfig struct {
	Keep int64 `mapstructure:"keep"`
}

// StageConfig sizes the stage.
type StageConfig struct {
	Partitions  int           `mapstructure:"partitions"`
	Shards      int           `mapstructure:"shards"`
	Rows        int           `mapstructure:"rows"`
	Latency     time.Duration `mapstructure:"latency"`
	MaxSlots    int           `mapstructure:"max_slots"`
	MaxStreams  int           `mapstructure:"max_streams"`
	Engine      string        `mapstructure:"engine"`
	Head        string        `mapstructure:"head"`
	Lease       time.Duration `mapstructure:"lease"`
	StopTimeout time.Duration `mapstructure:"stop_timeout"`

	SnapshotMessages int           `mapstructure:"snapshot_messages"`
	SnapshotEvery    time.Duration `mapstructure:"snapshot_every"`

	Idle   time.Duration `mapstructure:"idle"`
	Forget time.Duration `mapstructure:"forget"`
}

// LogConfig is the log's.
type LogConfig struct {
	Level  string `mapstructure:"level"`
	Format string `mapstructure:"format"`
}

// MetricsConfig says where metrics and health are served.
type MetricsConfig struct {
	Listen string `mapstructure:"listen"` // "host:port", empty = nowhere
}

// defaultYAML is the documented default configuration. It is the only place
// where defaults and known keys stand: "config init" writes it, Load
// starts from it.
//
//go:embed default.yaml
var defaultYAML []byte

// ShowDefaults lets help say what a flag is where neither it nor a file sets its
// key. The flag itself stays unset.
func ShowDefaults(flags *pflag.FlagSet, bind map[string]string) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(defaultYAML)); err != nil {
		panic("BUG: the built-in configuration does not parse: " + err.Error())
	}
	for flag, key := range bind {
		if f := flags.Lookup(flag); f != nil { // not one of all commands'
			f.DefValue = v.GetString(key)
		}
	}
}

// Load merges the defaults, the file at path (none where empty), the
// environment and the flags, whose names bind maps to keys. Every problem of
// the file is in the error, with its line.
func Load(path string, flags *pflag.FlagSet, bind map[string]string) (Config, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(defaultYAML)); err != nil {
		panic("BUG: the built-in configuration does not parse: " + err.Error())
	}
	where, known := keySources{file: path, flags: flags, bind: bind}, v.AllKeys()
	var errs []error
	if path != "" {
		raw, err := readConfigFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return Config{}, cli.Fail(cli.ExitConfig, fmt.Errorf("config: %w", err), "eusn-stream config init "+cli.QuoteForShell(path))
		} else if err != nil {
			return Config{}, cli.Fail(cli.ExitConfig, fmt.Errorf("config: %w", err), compareHint)
		}
		if errs, err = where.readKeys(raw, known); err != nil {
			return Config{}, cli.Fail(cli.ExitConfig, err, compareHint)
		}
		if err := v.MergeConfig(bytes.NewReader(raw)); err != nil {
			return Config{}, cli.Fail(cli.ExitConfig, errors.Join(append(errs, fmt.Errorf("config: %s: %w", path, err))...), compareHint)
		}
	}
	v.SetEnvPrefix(cli.EnvPrefix)
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	for flag, key := range bind {
		if err := v.BindPFlag(key, flags.Lookup(flag)); err != nil {
			panic("BUG: " + err.Error())
		}
	}
	var c Config
	err := v.Unmarshal(&c, viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(strictNumbers, mapstructure.StringToTimeDurationHookFunc())))
	wrong := map[string]bool{}
	if err != nil {
		for _, e := range typeErrors(err) {
			var ke *keyError
			if errors.As(e, &ke) {
				wrong[ke.key] = true
				if !slices.Contains(known, ke.key) {
					continue // a group that readKeys has named
				}
			}
			errs = append(errs, where.locate(e))
		}
	}
	if err := c.Validate(); err != nil {
		broken := len(errs) > 0
		for _, e := range parts(err) {
			// What stands nowhere is its default, or empty for what was found above.
			var ke *keyError
			if broken && errors.As(e, &ke) && (wrong[ke.key] || where.source(ke.key) == "") {
				continue
			}
			errs = append(errs, where.locate(e))
		}
	}
	return c, cli.Fail(cli.ExitConfig, errors.Join(errs...), compareHint)
}

// maxConfig bounds a configuration file, far beyond any: another file of any
// size may be given by mistake.
const maxConfig = 1 << 20

// readConfigFile reads a configuration once and in order, so that a pipe will
// do: -c <(envsubst <template.yaml). One that nobody writes is an error, and is
// not waited for.
func readConfigFile(path string) ([]byte, error) {
	there, err := os.Stat(path)
	pipe := err == nil && there.Mode()&fs.ModeNamedPipe != 0
	if err := cli.NotWhole(path); err != nil && !pipe {
		return nil, err
	}
	open := os.O_RDONLY
	if pipe {
		open |= syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(path, open, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && pipe && len(raw) == 0 {
		err = fmt.Errorf("%s is a pipe, want a file or a pipe that is written into", path)
	}
	if err == nil && len(raw) > maxConfig {
		err = fmt.Errorf("%s is longer than %d KiB: no configuration file", path, maxConfig>>10)
	}
	return raw, err
}

// strictNumbers refuses what a file's numbers would quietly become: 1.5 rows
// one row, a latency of 5 five nanoseconds.
func strictNumbers(from, to reflect.Type, value any) (any, error) {
	number := from.Kind() == reflect.Int || from.Kind() == reflect.Float64
	switch {
	case number && to == reflect.TypeFor[time.Duration]():
		return nil, fmt.Errorf("want a duration with its unit, such as 5ms or 10s, got %v", value)
	case from.Kind() == reflect.Float64 && (to.Kind() == reflect.Int || to.Kind() == reflect.Int64):
		return nil, fmt.Errorf("want a whole number, got %v", value)
	}
	return value, nil
}

const compareHint = "eusn-stream config init reference.yaml, and compare"

// Pipeline is the part of c that package pipeline knows.
func (c Config) Pipeline() pipeline.Config {
	return pipeline.Config{
		Job: c.Job, InputSubject: c.Input.Subject, NonFinite: codec.NonFinite(c.Input.NonFinite),
		MaxMessage: c.Input.MaxMessage, InputMaxAge: c.Input.MaxAge, InputMaxBytes: c.Input.MaxBytes,
		OutputKeep: c.Output.Keep, DeadLetterKeep: c.DeadLetters.Keep, Replicas: c.NATS.Replicas,
		Partitions: c.Stage.Partitions, Shards: c.Stage.Shards, RowBudget: c.Stage.Rows, Latency: c.Stage.Latency,
		MaxSlots: c.Stage.MaxSlots, MaxStreams: c.Stage.MaxStreams, Head: c.Stage.Head, StopTimeout: c.Stage.StopTimeout,
		Reorder: c.Input.Reorder, ReorderBytes: c.Input.ReorderBytes, Lease: c.Stage.Lease, SnapshotMessages: c.Stage.SnapshotMessages, SnapshotEvery: c.Stage.SnapshotEvery,
		Idle: c.Stage.Idle, Forget: c.Stage.Forget,
	}
}

// Options is how to reach c's server, for a connection of that name.
func (c NATSConfig) Options(name string, log *slog.Logger) natsclient.Options {
	return natsclient.Options{
		URL: c.URL, Name: name, Creds: c.Creds, NKey: c.NKey, User: c.User, Password: c.Password, Token: c.Token,
		CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey, TLSHandshakeFirst: c.TLSFirst, InboxPrefix: c.InboxPrefix, Log: log,
	}
}
