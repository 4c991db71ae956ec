package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// defaultPartitions is the number of partitions of a new job. It limits how many
	// workers can share the job. Each partition has a consumer. The consumer examines
	// every message between two own messages: with messages of 10 rows, a job with 64
	// partitions takes 1.7 times the CPU time of a job with 16, publisher and server
	// included (docs/results.md).
	defaultPartitions = 16

	deadLetterRoom = 16 << 10 // bytes of headers that a dead letter adds
	maxPartitions  = store.MaxPartitions
	maxShards      = 1024
	mostSlots      = 1 << 28
)

// EmbeddedPartitions is the number of partitions, for Worker.NewPartitions, of a new job
// on an embedded server, which shares the cores of one machine with the stage.
const EmbeddedPartitions = 8

// Config is a job's configuration. Zero fields mean their defaults: the defaults of the
// configuration file, from which settings.go is generated, unless a comment names
// another default.
type Config struct {
	// Job names the NATS streams and subjects; a token of lower-case letters,
	// digits, "-" and "_".
	Job string
	// InputSubject is where producers publish: tokens, some of them wildcards, "*" or
	// "{name}", or ">" at the end. The text matched by the wildcards is the key; see
	// "Keys and partitions". Several subjects are separated by a blank; the key is then
	// the whole subject.
	InputSubject string
	// Shared makes the job read the input of another job. The job then has no input,
	// and InputSubject and Partitions are the other job's. Default: its own input.
	Shared SharedInput
	// Partitions, 1 to 4096, is equal for all workers of a job (see Resize). Default 0:
	// the partitions of an existing job; a new job gets Worker.NewPartitions.
	Partitions int
	// Shards, up to Partitions: engines working in parallel. Default one per core.
	Shards int
	// RowBudget closes a batch with this many rows.
	RowBudget int
	// Latency closes a batch this long after its first message, or up to four times as
	// long while the commits of the previous batch have no answer. Negative = take only
	// waiting messages.
	Latency time.Duration
	// MaxMessage is the largest input message, headers included, bytes; the server
	// refuses larger messages.
	MaxMessage int
	// MaxSlots is the most state rows a shard's engine holds. When more
	// sequences are open, the rows of the streams used least recently are
	// stored in the NATS stream <JOB>-ROWS and come back with their next
	// sample. It changes no result.
	MaxSlots int
	// Keys are patterns, separated by commas, for allowed keys, with "*" for any
	// characters. Messages under other keys become dead letters. Like NonFinite, it may
	// change after an orderly stop. Default: any key.
	Keys string
	// MaxStreams is the largest number of streams that a partition remembers. Beyond
	// it, one of the streams silent longest is forgotten (see "When room or input runs
	// out"), with the producer's sequence numbers.
	MaxStreams int
	// NonFinite is the handling of nulls, NaN and infinities; "reject": dead-letter the
	// message.
	NonFinite codec.NonFinite
	// Input is the message format. A job keeps its first format; a worker with another
	// format is refused, but a worker with only auto uses the job's. Default: Arrow
	// only.
	Input formats.Input
	// RateTolerance is by how many percent the sampling rate of a sequence may differ
	// from the model's before its predictions carry FlagRate; see monitor.Rate. No
	// state depends on it. -1 = the flag is never set.
	RateTolerance int
	// Readout names the model's readout to use. Default: the first.
	Readout string
	// Replicas of new NATS streams.
	Replicas int
	// InputMaxAge removes older input. Default 0: kept, so that a restart can rebuild
	// every state.
	InputMaxAge time.Duration
	// InputMaxBytes bounds the input kept; when full, producers' messages
	// are refused. 0 or -1: only the server's own limit.
	InputMaxBytes int64
	// OutputKeep is how many messages of predictions are kept per partition. 0 or -1:
	// all. There is no limit by age: the last message is the partition's position and
	// must never be removed.
	OutputKeep int64
	// DeadLetterKeep is how many dead letters are kept; beyond it the oldest are
	// dropped; the originals remain in the input under their Eusn-In-Seq until their
	// expiry. Negative = all.
	DeadLetterKeep int64
	// Reorder is how many messages of a key may be held for a message with a lower
	// Eusn-Seq before the lower number is given up as missing. Negative = none: every
	// gap is declared immediately.
	Reorder int
	// ReorderBytes limits the bytes of all held messages of a partition.
	ReorderBytes int
	// SnapshotMessages and SnapshotEvery set the interval of a partition's snapshots:
	// this many messages or this time.
	SnapshotMessages int
	SnapshotEvery    time.Duration
	// Lease is how long a worker that does not answer keeps its partitions, 200 ms to 2
	// minutes.
	Lease time.Duration
	// Idle ends the open sequence of a stream that has been silent for this time: with
	// a prediction if the policy allows sequences of any length (marked, gap),
	// otherwise without. The worker writes the end into the input, so that every replay
	// finds it in the same place; a sample stored before it keeps the sequence open.
	// Messages of a key held for a missing message are used after the same silence. The
	// silence is measured to within a second or an eighth of Idle. Default 0: only the
	// producers end sequences.
	Idle time.Duration
	// Forget forgets a stream after this silence, in the same way, and a key with its
	// last stream: the key's next message counts as a new producer's, as after
	// MaxStreams. At least Idle. Default 0: only MaxStreams forgets.
	Forget time.Duration
	// StopTimeout is how long a stop waits for the last commit.
	StopTimeout time.Duration
}

// WithDefaults returns the configuration with every zero field filled, as for a new
// job: an existing job has its own number of partitions.
func (c Config) WithDefaults() Config {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(defaults)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	c.Shared.From = cmp.Or(c.Shared.From, fromBeginning)
	c.Partitions = cmp.Or(c.Partitions, defaultPartitions)
	c.Shards = cmp.Or(c.Shards, min(runtime.GOMAXPROCS(0), c.Partitions, maxShards))
	return c
}

// valueRange is the allowed range of a field.
type valueRange struct {
	field       string
	least, most int64
}

// Defaults returns the default settings of a new job.
func Defaults() Config { return Config{}.WithDefaults() }

// MinPayload is the smallest max_payload, bytes, of a server that the job can use: a
// dead letter is larger than its message.
func (c Config) MinPayload() int { return c.WithDefaults().MaxMessage + deadLetterRoom }

func (c Config) shardConfig() shard.Config {
	return shard.Config{
		RowBudget: c.RowBudget, SnapshotMessages: c.SnapshotMessages, MaxMessage: c.MaxMessage, MaxSlots: c.MaxSlots, MaxStreams: c.MaxStreams,
		Reorder: c.Reorder, ReorderBytes: c.ReorderBytes, NonFinite: c.NonFinite, RateTolerance: c.rateShare(), Input: c.Input, MaxKey: c.inputPattern().MaxKey(), Keys: c.allowedKeys(),
		Latency: c.Latency, SnapshotEvery: c.SnapshotEvery, Lease: c.Lease, Idle: c.Idle, Forget: c.Forget, Events: c.eventJob(),
	}
}

// rateShare is RateTolerance as a share of the rate; -1 = any rate.
func (c Config) rateShare() float64 {
	if c.RateTolerance < 0 {
		return -1
	}
	return float64(c.RateTolerance) / 100
}

// eventJob returns the job name in its end events.
func (c Config) eventJob() string {
	if c.Shared.Job == "" {
		return ""
	}
	return c.Job
}

// allowedKeys returns the patterns of allowed keys.
func (c Config) allowedKeys() *names.Patterns {
	p, _ := names.ParsePatterns(c.Keys) // Validate has parsed it
	return p
}

// inputJob returns the job with the input of this job.
func (c Config) inputJob() string { return cmp.Or(c.Shared.Job, c.Job) }

// layout returns the configuration of the job's NATS streams.
func (c Config) layout() store.Layout {
	return store.Layout{
		Job: c.Job, InputJob: c.Shared.Job, Input: c.inputPattern(), Partitions: c.Partitions, MaxMessage: c.MaxMessage, Replicas: c.Replicas,
		InputMaxAge: c.InputMaxAge, InputMaxBytes: c.InputMaxBytes, OutputKeep: c.OutputKeep, DeadLetterKeep: c.DeadLetterKeep,
	}
}

// inputPattern returns the input subject, which Validate has accepted.
func (c Config) inputPattern() wire.Pattern {
	p, _ := wire.ParsePattern(c.InputSubject)
	return p
}

// describeRange is the range as numbers, or times, of a field's type.
func (r valueRange) describeRange(typ reflect.Type) string {
	least, most := reflect.ValueOf(r.least).Convert(typ), reflect.ValueOf(r.most).Convert(typ)
	switch {
	case r.most == math.MaxInt64:
		return fmt.Sprintf("at least %v", least)
	case r.least == math.MinInt64:
		return fmt.Sprintf("at most %v", most)
	}
	return fmt.Sprintf("%v to %v", least, most)
}

var jobToken = regexp.MustCompile(jobPattern)

// Validate reports all errors in the configuration, with defaults for zero fields.
func (c Config) Validate() error {
	most := maxShards // of shards, if the existing job determines the number of partitions
	if c.Partitions != 0 {
		most = max(1, min(c.Partitions, maxShards))
	}
	c = c.WithDefaults()
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pipeline: config: "+format, args...))
	}
	value := reflect.ValueOf(c)
	for _, r := range ranges {
		if v := value.FieldByName(r.field); v.Int() < r.least || v.Int() > r.most {
			bad("%s is %v, want %s", r.field, v, r.describeRange(v.Type()))
		}
	}
	if c.Shards > most {
		bad("Shards is %d, want at most %d", c.Shards, most)
	}
	if !jobToken.MatchString(c.Job) {
		bad("job %q, want at most 32 lower-case letters, digits, - and _", c.Job)
	}
	if p, err := wire.ParsePattern(c.InputSubject); err != nil {
		bad("%w", err)
	} else if p.Takes(c.Job) {
		bad("input subject %q takes subjects of the job's own, %s.in... and %s.out...: want another word before the first dot, or another job name", c.InputSubject, c.Job, c.Job)
	}
	if err := c.Shared.checkShared(c.Job); err != nil {
		bad("%w", err)
	}
	if _, err := names.ParsePatterns(c.Keys); err != nil {
		bad("keys %w", err)
	}
	if c.Forget > 0 && c.Forget < c.Idle {
		bad("Forget is %v, want 0 (never), or no less than Idle, %v", c.Forget, c.Idle)
	}
	if !slices.Contains([]codec.NonFinite{codec.Reject, codec.Hold, codec.Zero}, c.NonFinite) {
		bad("non-finite policy %q, want reject, hold or zero", c.NonFinite)
	}
	if err := c.Input.Validate(); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}
