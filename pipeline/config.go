package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"runtime"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// DefaultPartitions is what a new job gets. It bounds how many workers can
	// share the job. Each partition has a consumer, which looks at every message
	// between two of its own: with messages of 10 rows, a job of 64 takes 1.7 times
	// the CPU time of one with 16, publisher and server included
	// (docs/results.md).
	DefaultPartitions = 16
	// EmbeddedPartitions is what a new job should get on a server inside the
	// program, which shares the cores of one machine with the stage.
	EmbeddedPartitions = 8

	deadLetterRoom = 16 << 10 // bytes of headers that a dead letter adds
	maxPartitions  = store.MaxPartitions
	maxShards      = 1024
	mostSlots      = 1 << 28
)

// MaxPartitions is the most that a job can have.
const MaxPartitions = maxPartitions

// JobStreams is how many NATS streams a job has: four, and those of its three
// buckets.
const JobStreams = store.JobStreams

// MaxConsumers is how many consumers the NATS streams that a stage creates may have, and
// UsualConsumers how many where nobody sets a limit. At ManyConsumers of its limit, a
// NATS stream has few left.
const (
	MaxConsumers   = store.MaxConsumers
	UsualConsumers = store.UsualConsumers
	ManyConsumers  = .8
)

// ConsumersFor is how many consumers the input of a job of so many partitions needs room
// for.
func ConsumersFor(partitions int) int { return store.ConsumersFor(partitions) }

// Config is what a user decides about a job. Zero fields mean their defaults: those of
// the configuration file, from which settings.go is generated, unless a comment names
// another one.
type Config struct {
	// Job names the NATS streams and subjects; a token of lower-case letters,
	// digits, "-" and "_".
	Job string
	// InputSubject is where producers publish: tokens, some of which are
	// wildcards, "*" or "{name}", or ">" at the end. What they stand for is the
	// key; see "Keys and partitions". Several subjects have a blank between them,
	// and the key is the whole subject then.
	InputSubject string
	// Shared makes the job read the input of another one. It has none of its own
	// then: InputSubject and Partitions are that job's. Default: its own input.
	Shared SharedInput
	// Partitions, 1 to 4096, is the same for all of a job (see Resize). Default 0: those
	// of the job, where it exists; a new one gets Worker.NewPartitions.
	Partitions int
	// Shards, up to Partitions: engines working side by side. Default one
	// per core.
	Shards int
	// RowBudget closes a batch that has this many rows.
	RowBudget int
	// Latency closes a batch this long after its first message, or up to four times
	// as long while the commits of the batch before have no answer. Negative =
	// take only what is waiting.
	Latency time.Duration
	// MaxMessage is the largest input message, headers included, bytes; the
	// server refuses larger ones.
	MaxMessage int
	// MaxSlots is the most state rows a shard's engine holds. When more
	// sequences are open, the rows of the streams used least recently are
	// stored in the NATS stream <JOB>-ROWS and come back with their next
	// sample. It changes no result.
	MaxSlots int
	// Keys are patterns, separated by commas, that a key must fit, with "*" for any
	// characters. Messages under other keys become dead letters. As NonFinite, it may
	// change after an orderly stop. Default: any key.
	Keys string
	// MaxStreams is the most streams a partition remembers. Beyond it, one of those
	// longest silent is forgotten (see "When room or input runs out"), and with it
	// the sequence numbers its producer has used.
	MaxStreams int
	// NonFinite says what to do with nulls, NaN and infinities; "reject":
	// dead-letter the message.
	NonFinite codec.NonFinite
	// Input says how messages are read. A job keeps what it began with; a
	// worker with another one is refused, but one whose Input is auto and no
	// more takes the job's. Default: Arrow alone.
	Input formats.Input
	// RateTolerance is by how many percent the sampling rate of a sequence may
	// differ from the model's before its predictions carry FlagRate; see
	// monitor.Rate. No state depends on it. -1 = that flag is never set.
	RateTolerance int
	// Readout names the model's readout to use. Default: its first.
	Readout string
	// Replicas of the NATS streams when they are created.
	Replicas int
	// InputMaxAge removes older input. Default 0: kept, so that a restart
	// can rebuild every state.
	InputMaxAge time.Duration
	// InputMaxBytes bounds the input kept; when full, producers' messages
	// are refused. Default 0: only the server's own limit.
	InputMaxBytes int64
	// OutputKeep is how many messages of predictions are kept per partition.
	// Default 0: all. There is no limit by age: the last one is the
	// partition's position and must never be removed.
	OutputKeep int64
	// DeadLetterKeep is how many dead letters are kept; beyond it the oldest
	// are dropped, whose originals the input has under their Eusn-In-Seq until
	// they age. Negative = all.
	DeadLetterKeep int64
	// Reorder is how many messages of a key may wait for one with a lower
	// Eusn-Seq before that is given up as missing. Negative = none: every gap
	// is declared at once.
	Reorder int
	// ReorderBytes bounds what all waiting messages of a partition weigh.
	ReorderBytes int
	// SnapshotMessages and SnapshotEvery say how often a partition's state is
	// stored: after this many messages or this time.
	SnapshotMessages int
	SnapshotEvery    time.Duration
	// Lease is how long a worker that does not answer keeps its partitions,
	// 200 ms to 2 minutes.
	Lease time.Duration
	// Idle ends the open sequence of a stream that has been silent so long:
	// with a prediction where the policy lets sequences have any length
	// (marked, gap), without one elsewhere. The worker writes the end into the
	// input, so that every replay finds it in the same place; a sample that
	// was stored before it keeps the sequence open. Messages of a key that
	// wait for a missing one are used after the same silence. It is measured
	// to within a second or an eighth of it. Default 0: only the producers end
	// sequences.
	Idle time.Duration
	// Forget forgets a stream after so much silence, in the same way, and a
	// key with its last stream: its next message counts as a new producer's,
	// as after MaxStreams. At least Idle. Default 0: only MaxStreams forgets.
	Forget time.Duration
	// StopTimeout is how long a stop waits for the last commit.
	StopTimeout time.Duration
}

// WithDefaults returns the configuration with every zero field filled, as for a
// new job: one that exists has partitions of its own.
func (c Config) WithDefaults() Config {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(defaults)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	c.Shared.From = cmp.Or(c.Shared.From, FromBeginning)
	c.Partitions = cmp.Or(c.Partitions, DefaultPartitions)
	c.Shards = cmp.Or(c.Shards, min(runtime.GOMAXPROCS(0), c.Partitions, maxShards))
	return c
}

// valueRange says which values a field may have.
type valueRange struct {
	field       string
	least, most int64
}

// Defaults returns the settings of a new job of which nothing was decided.
func Defaults() Config { return Config{}.WithDefaults() }

// MinPayload is the least max_payload, bytes, of a server that the job can
// use: a dead letter is larger than its message.
func (c Config) MinPayload() int { return c.WithDefaults().MaxMessage + deadLetterRoom }

func (c Config) shard() shard.Config {
	return shard.Config{
		RowBudget: c.RowBudget, SnapshotMessages: c.SnapshotMessages, MaxMessage: c.MaxMessage, MaxSlots: c.MaxSlots, MaxStreams: c.MaxStreams,
		Reorder: c.Reorder, ReorderBytes: c.ReorderBytes, NonFinite: c.NonFinite, RateTolerance: c.rateShare(), Input: c.Input, MaxKey: c.pattern().MaxKey(), Keys: c.allowedKeys(),
		Latency: c.Latency, SnapshotEvery: c.SnapshotEvery, Lease: c.Lease, Idle: c.Idle, Forget: c.Forget, Events: c.events(),
	}
}

// rateShare is RateTolerance as a share of the rate; -1 = any rate.
func (c Config) rateShare() float64 {
	if c.RateTolerance < 0 {
		return -1
	}
	return float64(c.RateTolerance) / 100
}

// events is the job that its end events name.
func (c Config) events() string {
	if c.Shared.Job == "" {
		return ""
	}
	return c.Job
}

// allowedKeys are the keys that the job reads.
func (c Config) allowedKeys() *names.Patterns {
	p, _ := names.ParsePatterns(c.Keys) // validate has read it
	return p
}

// inputJob is the job whose input this one reads.
func (c Config) inputJob() string { return cmp.Or(c.Shared.Job, c.Job) }

// Layout is what the NATS streams of the job depend on.
func (c Config) Layout() store.Layout {
	return store.Layout{
		Job: c.Job, InputJob: c.Shared.Job, Input: c.pattern(), Partitions: c.Partitions, MaxMessage: c.MaxMessage, Replicas: c.Replicas,
		InputMaxAge: c.InputMaxAge, InputMaxBytes: c.InputMaxBytes, OutputKeep: c.OutputKeep, DeadLetterKeep: c.DeadLetterKeep,
	}
}

// pattern is the input subject, which Validate has let through.
func (c Config) pattern() wire.Pattern {
	p, _ := wire.ParsePattern(c.InputSubject)
	return p
}

// words is the range as numbers, or times, of a field's type.
func (r valueRange) words(typ reflect.Type) string {
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

// Validate reports everything that is wrong with the configuration, zero
// fields taken as their defaults.
func (c Config) Validate() error {
	most := maxShards // of shards, where the job has to say how many partitions there are
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
			bad("%s is %v, want %s", r.field, v, r.words(v.Type()))
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
	if err := c.Shared.validate(c.Job); err != nil {
		bad("%w", err)
	}
	if _, err := names.ParsePatterns(c.Keys); err != nil {
		bad("keys %w", err)
	}
	if c.Forget > 0 && c.Forget < c.Idle {
		bad("Forget is %v, want 0 (never), or no less than Idle, %v", c.Forget, c.Idle)
	}
	if c.NonFinite != "reject" && c.NonFinite != "hold" && c.NonFinite != "zero" {
		bad("non-finite policy %q, want reject, hold or zero", c.NonFinite)
	}
	if err := c.Input.Validate(); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}
