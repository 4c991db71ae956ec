package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir/monitor"
)

// Defaults of Config.
const (
	DefaultJob          = wire.DefaultJob
	DefaultInputSubject = wire.DefaultInputSubject
	// DefaultPartitions is what a new job gets. It bounds how many workers can
	// share the job. Each partition has a consumer, which looks at every message
	// between two of its own: with messages of 10 rows, a job of 64 takes 1.7 times
	// the CPU time of one with 16, publisher and server included
	// (docs/measurements/small-messages.md).
	DefaultPartitions = 16
	// EmbeddedPartitions is what a new job should get on a server inside the
	// program, which shares the cores of one machine with the stage.
	EmbeddedPartitions = 8
	// DefaultRowBudget is 32 messages of 1,000 rows: a vector engine's widest
	// tile of streams, at a few milliseconds a batch.
	DefaultRowBudget = 32_000
	// DefaultLatency is short beside sampling intervals and long enough to
	// gather the messages of hundreds of streams.
	DefaultLatency = 5 * time.Millisecond
	// DefaultMaxMessage is a stock server's max_payload of 1 MiB less room
	// for the headers a dead letter adds.
	DefaultMaxMessage = 1<<20 - deadLetterRoom
	// DefaultMaxSlots bounds a shard's state memory: 65,536 rows are 50 MB
	// for 200 units, 3 GB for a bank of 40 x 50 units with all features.
	DefaultMaxSlots = 1 << 16
	// DefaultMaxStreams bounds a partition's memory of who sent what last:
	// about 12 MB (740 bytes each, measured without a reservoir state).
	DefaultMaxStreams = 1 << 14
	// DefaultReorder messages of a key may wait for one that is missing:
	// what producers have under way when a connection breaks.
	DefaultReorder = 16
	// DefaultReorderBytes bounds what a partition's held messages weigh.
	DefaultReorderBytes = 8 << 20
	// DefaultDeadLetterKeep dead letters are enough to see what is wrong with
	// every producer, and bound what a stage that can use nothing stores: 300 MB
	// of messages of 3 kB. No bound by bytes: the server would reserve them.
	DefaultDeadLetterKeep = 100_000
	// DefaultSnapshotMessages and DefaultSnapshotEvery bound what a restart
	// replays to a second or so.
	DefaultSnapshotMessages = 4096
	DefaultSnapshotEvery    = 30 * time.Second
	// DefaultLease is how long a worker that does not answer keeps its
	// partitions: longer than pauses of a busy machine.
	DefaultLease = 3 * time.Second
	// DefaultStopTimeout is below the 30 s a container runtime waits before
	// it kills.
	DefaultStopTimeout = 10 * time.Second

	// DefaultRateTolerance is the share by which sampling rates may differ.
	DefaultRateTolerance = monitor.DefaultTolerance

	deadLetterRoom = 16 << 10
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

// Config is what a user decides about a job. Zero fields mean their defaults.
type Config struct {
	// Job names the NATS streams and subjects; a token of lower-case letters,
	// digits, "-" and "_". Default DefaultJob.
	Job string
	// InputSubject is where producers publish: tokens, some of which are
	// wildcards, "*" or "{name}", or ">" at the end. What they stand for is the
	// key; see "Keys and partitions". Several subjects have a blank between them,
	// and the key is the whole subject then. Default DefaultInputSubject.
	InputSubject string
	// Shared makes the job read the input of another one. It has none of its own
	// then: InputSubject and Partitions are that job's. Default: its own input.
	Shared SharedInput
	// Partitions, 1 to 4096, is the same for all of a job (see Resize). Default 0: those
	// of the job, where it exists; a new one gets Stage.NewPartitions.
	Partitions int
	// Shards, up to Partitions: engines working side by side. Default one
	// per core.
	Shards int
	// RowBudget closes a batch that has this many rows. Default
	// DefaultRowBudget.
	RowBudget int
	// Latency closes a batch this long after its first message, or up to four times
	// as long while the commits of the batch before have no answer. Default
	// DefaultLatency; negative = take only what is waiting.
	Latency time.Duration
	// MaxMessage is the largest input message, headers included, bytes; the
	// server refuses larger ones. Default DefaultMaxMessage.
	MaxMessage int
	// MaxSlots is the most state rows a shard's engine holds. When more
	// sequences are open, the rows of the streams used least recently are
	// stored in the NATS stream <JOB>-ROWS and come back with their next
	// sample. It changes no result. Default DefaultMaxSlots.
	MaxSlots int
	// Keys are patterns, separated by commas, that a key must fit, with "*" for any
	// characters. Messages under other keys become dead letters. As NonFinite, it may
	// change after an orderly stop. Default: any key.
	Keys string
	// MaxStreams is the most streams a partition remembers. Beyond it, one of those
	// longest silent is forgotten (see "When room or input runs out"), and with it
	// the sequence numbers its producer has used. Default DefaultMaxStreams.
	MaxStreams int
	// NonFinite says what to do with nulls, NaN and infinities. Default
	// "reject": dead-letter the message.
	NonFinite codec.NonFinite
	// Input says how messages are read. A job keeps what it began with; a
	// worker with another one is refused, but one whose Input is auto and no
	// more takes the job's. Default: Arrow alone.
	Input formats.Input
	// RateTolerance is the share by which the sampling rate of a sequence may
	// differ from the model's before its predictions carry FlagRate; see
	// monitor.Rate. No state depends on it. Default DefaultRateTolerance;
	// -1 = that flag is never set.
	RateTolerance float64
	// Head names the model's readout to use. Default: its first.
	Head string
	// Replicas of the NATS streams when they are created. Default 1.
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
	// they age. Default DefaultDeadLetterKeep; negative = all.
	DeadLetterKeep int64
	// Reorder is how many messages of a key may wait for one with a lower
	// Eusn-Seq before that is given up as missing. Default DefaultReorder;
	// negative = none: every gap is declared at once.
	Reorder int
	// ReorderBytes bounds what all waiting messages of a partition weigh.
	// Default DefaultReorderBytes.
	ReorderBytes int
	// SnapshotMessages and SnapshotEvery say how often a partition's state is
	// stored: after this many messages or this time. Default
	// DefaultSnapshotMessages, DefaultSnapshotEvery.
	SnapshotMessages int
	SnapshotEvery    time.Duration
	// Lease is how long a worker that does not answer keeps its partitions,
	// 200 ms to 2 minutes. Default DefaultLease.
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
	// StopTimeout is how long a stop waits for the last commit. Default
	// DefaultStopTimeout.
	StopTimeout time.Duration
}

// WithDefaults returns the configuration with every zero field filled, as for a
// new job: one that exists has partitions of its own.
func (c Config) WithDefaults() Config {
	def(&c.Job, DefaultJob)
	def(&c.InputSubject, DefaultInputSubject)
	def(&c.Shared.From, FromBeginning)
	def(&c.Partitions, DefaultPartitions)
	def(&c.Shards, min(runtime.GOMAXPROCS(0), c.Partitions, maxShards))
	def(&c.RowBudget, DefaultRowBudget)
	def(&c.Latency, DefaultLatency)
	def(&c.MaxMessage, DefaultMaxMessage)
	def(&c.MaxSlots, DefaultMaxSlots)
	def(&c.MaxStreams, DefaultMaxStreams)
	def(&c.NonFinite, "reject")
	def(&c.RateTolerance, DefaultRateTolerance)
	def(&c.Replicas, 1)
	def(&c.DeadLetterKeep, DefaultDeadLetterKeep)
	def(&c.Reorder, DefaultReorder)
	def(&c.ReorderBytes, DefaultReorderBytes)
	def(&c.SnapshotMessages, DefaultSnapshotMessages)
	def(&c.SnapshotEvery, DefaultSnapshotEvery)
	def(&c.Lease, DefaultLease)
	def(&c.StopTimeout, DefaultStopTimeout)
	return c
}

// MinPayload is the least max_payload, bytes, of a server that the job can
// use: a dead letter is larger than its message.
func (c Config) MinPayload() int { return c.WithDefaults().MaxMessage + deadLetterRoom }

func (c Config) shard() shard.Config {
	return shard.Config{
		RowBudget: c.RowBudget, SnapshotMessages: c.SnapshotMessages, MaxMessage: c.MaxMessage, MaxSlots: c.MaxSlots, MaxStreams: c.MaxStreams,
		Reorder: c.Reorder, ReorderBytes: c.ReorderBytes, NonFinite: c.NonFinite, RateTolerance: c.RateTolerance, Input: c.Input, MaxKey: c.pattern().MaxKey(), Keys: c.allowedKeys(),
		Latency: c.Latency, SnapshotEvery: c.SnapshotEvery, Lease: c.Lease, Idle: c.Idle, Forget: c.Forget, Events: c.events(),
	}
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

func (c Config) layout() store.Layout {
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

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

var jobToken = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

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
	within := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			bad("%s = %d, want %d to %d", name, v, lo, hi)
		}
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
	within("partitions", c.Partitions, 1, maxPartitions)
	within("shards", c.Shards, 1, most)
	within("row budget", c.RowBudget, 1, 1<<24)
	within("max message", c.MaxMessage, 1<<10, 64<<20)
	within("max slots", c.MaxSlots, 1, mostSlots)
	within("max streams", c.MaxStreams, 1, 1<<26)
	within("reorder", c.Reorder, math.MinInt, 1<<16)
	within("reorder bytes", c.ReorderBytes, 1, 1<<30)
	within("snapshot messages", c.SnapshotMessages, 1, 1<<30)
	if _, err := names.ParsePatterns(c.Keys); err != nil {
		bad("keys %w", err)
	}
	if c.SnapshotEvery <= 0 || c.Lease < 200*time.Millisecond || c.Lease > 2*time.Minute {
		bad("snapshot every %v, lease %v: want a positive time, and 200ms to 2m", c.SnapshotEvery, c.Lease)
	}
	if c.Idle < 0 || c.Forget < 0 || c.Forget > 0 && c.Forget < c.Idle {
		bad("idle %v, forget %v: want 0 (never) or a positive time, forget no shorter than idle", c.Idle, c.Forget)
	}
	if r := c.RateTolerance; r != -1 && !(r > 0 && r <= 1) {
		bad("rate tolerance %g, want a share of at most 1, or -1 for none", r)
	}
	within("replicas", c.Replicas, 1, 5)
	if c.Latency > time.Minute {
		bad("latency %v, want at most a minute", c.Latency)
	}
	if c.NonFinite != "reject" && c.NonFinite != "hold" && c.NonFinite != "zero" {
		bad("non-finite policy %q, want reject, hold or zero", c.NonFinite)
	}
	if err := c.Input.Validate(); err != nil {
		bad("%w", err)
	}
	if c.InputMaxAge < 0 || c.InputMaxBytes < 0 || c.OutputKeep < 0 || c.StopTimeout < 0 {
		bad("input max age, input max bytes, output keep and stop timeout must not be negative")
	}
	return errors.Join(errs...)
}
