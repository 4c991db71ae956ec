package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Layout is the configuration of a job's new NATS streams: limits of 0 or -1 (except
// MaxMessage and Replicas) mean none.
type Layout struct {
	Job            string
	InputJob       string // the job whose input is read, if it is another job: no input is created
	Input          wire.Pattern
	Partitions     int
	MaxMessage     int           // bytes of an input message, headers included
	Replicas       int           // of each NATS stream
	InputMaxAge    time.Duration // age limit of kept input
	InputMaxBytes  int64         // size limit of kept input
	OutputKeep     int64         // messages of predictions kept per partition
	DeadLetterKeep int64         // dead letters kept; negative = all
}

func (c Layout) listStreams() []jetstream.StreamConfig {
	in := jetstream.StreamConfig{
		Name:     wire.InputStream(c.Job),
		Subjects: c.Input.Subjects(),
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source:      c.Input.Source(),
			Destination: c.Input.Destination(c.Job, c.Partitions),
		},
		MaxMsgSize: int32(c.MaxMessage),
		MaxAge:     c.InputMaxAge,
		MaxBytes:   c.InputMaxBytes,
		Discard:    jetstream.DiscardNew, // if full, producers get an error; no unread message is dropped
		Duplicates: 2 * time.Minute,
		// The reader of the input keeps its own position, so an idle consumer is
		// useless.
		ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: time.Hour},
	}
	out := jetstream.StreamConfig{
		Name:              wire.OutputStream(c.Job),
		Subjects:          []string{c.Job + ".out.*"},
		MaxMsgsPerSubject: c.OutputKeep,
	}
	dead := jetstream.StreamConfig{
		Name:     wire.DeadLetterStream(c.Job),
		Subjects: []string{c.Job + ".dlq.*"},
		MaxMsgs:  c.DeadLetterKeep, // the oldest go: the input has their originals
	}
	rows := jetstream.StreamConfig{ // of the snapshots, see internal/pipeline/store/rowstore.go
		Name:       wire.RowStream(c.Job),
		Subjects:   []string{c.Job + ".rows.*.*"},
		Discard:    jetstream.DiscardNew, // if full, the stage gets an error; no row in use is dropped
		Duplicates: 2 * time.Minute,
		FirstSeq:   firstRow(),
	}
	all := []jetstream.StreamConfig{in, out, dead, rows}
	if c.InputJob != "" {
		all = all[1:]
	}
	for i := range all {
		all[i].Retention = jetstream.LimitsPolicy
		all[i].Storage = jetstream.FileStorage // memory streams vanish with a standalone server
		all[i].Replicas = c.Replicas
		// A lagging replica may answer direct reads; positions are read from the
		// leader.
		all[i].AllowDirect = false
		if all[i].MaxBytes == 0 {
			all[i].MaxBytes = -1
		}
		if all[i].MaxMsgs <= 0 {
			all[i].MaxMsgs = -1
		}
		if all[i].MaxMsgsPerSubject == 0 {
			all[i].MaxMsgsPerSubject = -1
		}
	}
	return all
}

// firstRow is a number unused in any earlier store of state rows with this name:
// snapshots may name, and owners delete, rows of a store that was deleted and
// recreated.
func firstRow() uint64 { return uint64(time.Now().UnixMicro()) }

// EnsureStreams creates missing streams and compares existing streams: a difference
// that would change results or lose data is an error, another limit is kept and logged.
// Existing streams stay unchanged.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, c Layout, log *slog.Logger) error {
	var errs []error
	account, err := js.AccountInfo(ctx)
	if err != nil {
		account = nil // its limit of consumers is unknown
	}
	for _, want := range c.listStreams() {
		s, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if s, err = createStream(ctx, js, want); isOverlap(err) {
				err = fmt.Errorf("%w: another NATS stream, perhaps another job's input, takes these subjects; give each job an input subject of its own (input.subject), or let this one read the other's input (input.job)", err)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("pipeline: NATS stream %s on %v cannot be created: %w", want.Name, want.Subjects, err))
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("pipeline: NATS stream %s: %w", want.Name, err)
		}
		got := s.CachedInfo().Config
		errs = append(errs, compareStream(got, want, log))
		if want.SubjectTransform != nil {
			if few := FewConsumers(got, account, c.Partitions); few != "" {
				log.Warn(few)
			}
		}
	}
	return errors.Join(errs...)
}

// lookups is how often a NATS stream is requested after a cluster reported its name as
// taken.
const lookups = 4

// createStream creates a NATS stream, or finds the stream already created meanwhile.
// The server refuses an existing name unless every setting is equal, and row numbers
// begin at each worker's clock (firstRow): the second worker uses the existing stream.
func createStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := CreateStream(ctx, js, want)
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return s, err
	}
	// A cluster reserves a name before its leader can answer.
	for range lookups {
		if s, err = js.Stream(ctx, want.Name); !errors.Is(err, jetstream.ErrStreamNotFound) || Pause(ctx, RetryWait) != nil {
			break
		}
	}
	return s, err
}

// JobStreams is the number of NATS streams of a job: four, plus three of buckets. A job
// works without the stream of its models.
const JobStreams = 7

// AccountWants adds to the server's refusal to create a NATS stream which right or
// limit the account lacks.
func AccountWants(err error) error {
	const tooManyStreams, maxBytesRequired = 10027, 10113
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case tooManyStreams:
		return fmt.Errorf("%w: a job needs %d NATS streams, its buckets' included; raise the account's max_streams (docs/nats.md)", err, JobStreams)
	case maxBytesRequired:
		return fmt.Errorf("%w: create the job's NATS streams before its first start, each with max_bytes (docs/nats.md)", err)
	}
	return err
}

// isOverlap reports whether a NATS stream was refused because the subjects overlap with
// another stream; the client has no error value for an overlap.
func isOverlap(err error) bool {
	const subjectOverlap = 10065
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == subjectOverlap
}

// ErrLayout reports a job with another number of partitions or other keys.
var ErrLayout = errors.New("the job has another number of partitions or other keys: omit stage.partitions to use the job's number, or resize the job")

func compareStream(got, want jetstream.StreamConfig, log *slog.Logger) error {
	var errs []error
	name := want.Name
	differs := func(what string, has, wants any, advice string) {
		errs = append(errs, fmt.Errorf("pipeline: NATS stream %s has %s %v, the configuration has %v: %s", name, what, has, wants, advice))
	}
	if !sameSubjects(got.Subjects, want.Subjects) {
		differs("subjects", got.Subjects, want.Subjects, "use its subjects or another job name")
	}
	if got, want := Destination(got), Destination(want); got != want {
		errs = append(errs, fmt.Errorf("pipeline: NATS stream %s has the subject transform %s, the configuration has %s: %w", name, got, want, ErrLayout))
	}
	if got.Retention != want.Retention {
		differs("retention", got.Retention, want.Retention, "other consumers must not remove messages the stage has to replay")
	}
	if got.Discard != want.Discard && want.SubjectTransform != nil {
		differs("discard policy", got.Discard, want.Discard, "a full NATS stream must refuse new messages, not drop unread ones")
	}
	errs = append(errs, CheckDiscards(got))
	if got.MaxAge != 0 && strings.HasSuffix(want.Name, "-ROWS") {
		differs("max age", got.MaxAge, want.MaxAge, "state rows must stay until they come back")
	}
	if strings.HasSuffix(want.Name, "-ROWS") && got.Discard != want.Discard && (got.MaxBytes > 0 || got.MaxMsgs > 0 || got.MaxMsgsPerSubject > 0) {
		differs("a limit and the discard policy", got.Discard, want.Discard, "a full store must refuse state rows, not drop those in use")
	}
	if got.AllowDirect {
		differs("allow_direct", true, false, "positions must be read from the leader")
	}
	if !sameLimits(got, want) {
		log.Warn("NATS stream has other limits than the configuration; the stage leaves them as they are", "stream", want.Name,
			"storage", got.Storage, "replicas", got.Replicas, "max_age", got.MaxAge, "max_bytes", got.MaxBytes,
			"max_msg_size", got.MaxMsgSize, "max_msgs", got.MaxMsgs, "max_msgs_per_subject", got.MaxMsgsPerSubject)
	}
	return errors.Join(errs...)
}

// sameLimits compares the settings that an operator may change.
func sameLimits(got, want jetstream.StreamConfig) bool {
	return got.Storage == want.Storage && got.Replicas == want.Replicas && got.MaxAge == want.MaxAge &&
		got.MaxBytes == want.MaxBytes && (got.MaxMsgSize == want.MaxMsgSize || want.MaxMsgSize <= 0) &&
		got.MaxMsgs == want.MaxMsgs && got.MaxMsgsPerSubject == want.MaxMsgsPerSubject
}

// CheckDiscards names a limit of a job's input or output that would remove needed
// messages: unread input, or the last message of a partition, the partition's position.
func CheckDiscards(got jetstream.StreamConfig) error {
	undo := func(limit string, has any, means, flag string) error {
		return fmt.Errorf("pipeline: NATS stream %s has %s %v: %s; remove the limit: nats stream edit %s %s", got.Name, limit, has, means, got.Name, flag)
	}
	const position = "it removes old messages, but the last message of a partition holds its position and must stay: without it, all input is predicted again"
	old := got.Discard == jetstream.DiscardOld
	switch {
	case strings.HasSuffix(got.Name, "-IN") && got.MaxMsgsPerSubject > 0 && (old || !got.DiscardNewPerSubject):
		return undo("max messages per subject", got.MaxMsgsPerSubject, "it removes a key's messages before they are read", "--max-msgs-per-subject=-1")
	case !strings.HasSuffix(got.Name, "-OUT"):
		return nil
	case got.MaxAge != 0:
		return undo("max age", got.MaxAge, position, "--max-age=0")
	case got.MaxMsgs > 0 && old:
		return undo("max messages", got.MaxMsgs, position, "--max-msgs=-1, or let it refuse new messages instead (--discard=new); max messages per subject is safe")
	case got.MaxBytes > 0 && old:
		return undo("max bytes", got.MaxBytes, position, "--max-bytes=-1, or let it refuse new messages instead (--discard=new)")
	}
	return nil
}
