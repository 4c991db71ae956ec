package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrFenced means that another process took the alarms over.
var ErrFenced = errors.New("watch: another process now keeps the alarms of this job")

// record is the log message that names the log's writer and its stored state.
type record struct {
	Writer  string    `json:"writer"`
	Output  time.Time `json:"output"`   // creation time of the job's output, the base of all positions
	First   uint64    `json:"first"`    // first message of the stored state
	Last    uint64    `json:"last"`     // last message of the stored state
	SHA256  string    `json:"sha256"`   // of the state
	Number  uint64    `json:"number"`   // of the state's last event
	InState uint64    `json:"position"` // position in the output
	// Server is the NATS server of the writer's connection. A server gets a new name at each start.
	Server string `json:"server,omitempty"`
}

const (
	warnEvery   = 10 * time.Second
	checkEvery  = time.Second
	stopTimeout = 10 * time.Second
	recordBytes = 64 << 10
	pieceBytes  = 512 << 10
)

// book is the alarm log; this process is its only writer.
type book struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	link    *store.Link
	job     string
	writer  string
	last    uint64 // number of the last message
	record  record
	inbox   *inbox // replies to batches; nil = events are published one by one
	batches int    // number of published batches
	skipped uint64 // number of foreign messages
	log     *slog.Logger
}

// openBook opens the log.
func openBook(ctx context.Context, js jetstream.JetStream, link *store.Link, job, writer string, log *slog.Logger) (*book, error) {
	s, err := js.Stream(ctx, wire.AlarmStream(job))
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	b := &book{js: js, stream: s, link: link, job: job, writer: writer, log: log}
	if s.CachedInfo().Config.AllowBatchPublish {
		if b.inbox, err = newInbox(js.Conn(), 2*mostTogether); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	return b, nil
}

// close releases the inbox; the book publishes no more.
func (b *book) close() {
	if b.inbox != nil {
		b.inbox.close()
	}
}

// readRecord reads the last message number and the newest record. known is false for a new log.
func (b *book) readRecord(ctx context.Context) (known bool, err error) {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	info, err := b.stream.Info(try)
	if err != nil {
		return false, err
	}
	b.last = info.State.LastSeq
	m, err := b.stream.GetLastMsgForSubject(try, wire.AlarmRecordSubject(b.job))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, b.checkNewLog(try)
	case err != nil:
		return false, err
	}
	b.record = record{}
	if len(m.Data) > recordBytes {
		err = fmt.Errorf("it has %d bytes", len(m.Data))
	} else {
		err = json.Unmarshal(m.Data, &b.record)
	}
	// Not b.last: another process may have stored a state and its record since that query.
	if err == nil && (b.record.First == 0 || b.record.Last < b.record.First || b.record.Last >= m.Sequence) {
		err = fmt.Errorf("it names the messages %d to %d", b.record.First, b.record.Last)
	}
	if err != nil {
		return false, fmt.Errorf("watch: record %d of %s is damaged: %w; %s", m.Sequence, wire.AlarmStream(b.job), err, recreateHint(b.job))
	}
	return true, nil
}

// checkNewLog returns an error if a log without a record has events. Pieces of a state may exist: a
// process was killed, or is still busy, before its first record.
func (b *book) checkNewLog(ctx context.Context) error {
	if b.last == 0 {
		return nil
	}
	found := ""
	err := b.readMessages(ctx, 1, false, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		if m.Subject() != wire.AlarmStateSubject(b.job) {
			if _, err := alarm.Unmarshal(m.Data()); err == nil {
				found = m.Subject()
			} else {
				b.logForeign(meta.Sequence.Stream, m.Subject(), err)
			}
		}
		return found == "" && meta.Sequence.Stream < b.last
	})
	if found != "" {
		return fmt.Errorf("watch: NATS stream %s has events on %s, but no record: foreign messages were published there, or the record was deleted; %s", wire.AlarmStream(b.job), found, recreateHint(b.job))
	}
	if errors.Is(err, errNoMessage) {
		return nil
	}
	return err
}

// skipForeign reports whether the message after the last message is foreign: neither a record, nor
// a piece of a state, nor an event. The log continues after this message.
func (b *book) skipForeign(m *jetstream.RawStreamMsg) bool {
	if m.Subject == wire.AlarmRecordSubject(b.job) || m.Subject == wire.AlarmStateSubject(b.job) {
		return false
	}
	_, err := parseLogged(m.Data, m.Header)
	if err == nil {
		return false
	}
	b.last = m.Sequence
	b.logForeign(m.Sequence, m.Subject, err)
	return true
}

// logForeign counts and logs a message that is no event.
func (b *book) logForeign(seq uint64, subject string, err error) {
	b.skipped++
	level := slog.LevelDebug
	if b.skipped&(b.skipped-1) == 0 { // 1, 2, 4, 8: many foreign messages do not fill the log
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "a message of the alarm log is no event and is skipped: another program publishes there", "stream", wire.AlarmStream(b.job), "message", seq, "subject", subject, "messages", b.skipped, "err", err)
}

// recreateHint returns instructions for starting a new alarm log without losing data.
func recreateHint(job string) string {
	name := wire.AlarmStream(job)
	return fmt.Sprintf("inspect the alarm log first (nats stream view %s), back it up (nats stream backup %s DIRECTORY), and only then remove it (nats stream rm %s): a new alarm log starts", name, name, name)
}

// claimRecord makes this process the writer of a log with a record.
func (b *book) claimRecord(ctx context.Context) error {
	r := b.record
	r.Writer = b.writer
	return b.putRecord(ctx, r)
}

func (b *book) putRecord(ctx context.Context, r record) error {
	r.Server = b.js.Conn().ConnectedServerId()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := b.publishMessage(ctx, b.newMessage(wire.AlarmRecordSubject(b.job), data)); err != nil {
		return err
	}
	b.record = r
	return nil
}

// errBack means that a NATS stream went back in time. The process restarts with the server's data.
var errBack = errors.New("watch: a NATS stream went back in time (a power failure? a restored backup?)")

// checkWriter returns an error if another process certainly wrote the log's last message.
func (b *book) checkWriter(ctx context.Context) error {
	if err := b.confirmWriter(ctx); !errors.Is(err, errUnknown) {
		return err
	}
	return nil
}

// confirmWriter returns an error unless this process certainly wrote the log's last message.
func (b *book) confirmWriter(ctx context.Context) error {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	info, err := b.stream.Info(try)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("watch: NATS stream %s was deleted", wire.AlarmStream(b.job))
	case err != nil:
		return fmt.Errorf("watch: NATS stream %s: %w: %w", wire.AlarmStream(b.job), errUnknown, err)
	case info.State.LastSeq > b.last:
		for b.last < info.State.LastSeq {
			next, err := b.stream.GetMsg(try, b.last+1)
			if err != nil || !b.skipForeign(next) {
				break
			}
		}
		if b.last >= info.State.LastSeq {
			return nil
		}
		return fmt.Errorf("%w: %s has message %d, and ours was %d", ErrFenced, wire.AlarmStream(b.job), info.State.LastSeq, b.last)
	case info.State.LastSeq < b.last:
		return fmt.Errorf("%w: %s, from message %d to %d", errBack, wire.AlarmStream(b.job), b.last, info.State.LastSeq)
	}
	return nil
}

// saveState stores a state, the tail's pending events, and a record that names the state.
func (b *book) saveState(ctx context.Context, f *alarm.Fold, tail []alarm.Logged, output time.Time) error {
	data, err := f.Encode(tail...)
	if err != nil {
		return err
	}
	if len(data) > alarm.MaxState {
		return fmt.Errorf("watch: a state of %d bytes: %w", len(data), alarm.ErrLarge)
	}
	sum := sha256.Sum256(data)
	r := record{Writer: b.writer, Output: output, First: b.last + 1, SHA256: hex.EncodeToString(sum[:]), Number: f.Number(), InState: f.Position()}
	for len(data) > 0 {
		piece := data[:min(len(data), pieceBytes, int(b.js.Conn().MaxPayload())/2)]
		if err := b.publishMessage(ctx, b.newMessage(wire.AlarmStateSubject(b.job), piece)); err != nil {
			return err
		}
		data = data[len(piece):]
	}
	r.Last = b.last
	if err := b.putRecord(ctx, r); err != nil {
		return err
	}
	// ctx must not end this: the purge is by number and no other process may do it later.
	try, cancel := b.link.Attempt(context.WithoutCancel(ctx))
	defer cancel()
	for subject, before := range map[string]uint64{wire.AlarmStateSubject(b.job): r.First, wire.AlarmRecordSubject(b.job): b.last} {
		if err := natsclient.PurgeBefore(try, b.stream, subject, before); err != nil && ctx.Err() == nil {
			b.log.Debug("cannot remove the previous state now; a later save removes it", "err", err)
		}
	}
	return nil
}

// readState reads the state that the record names.
func (b *book) readState(ctx context.Context) (*alarm.Fold, error) {
	var data []byte
	for seq := b.record.First; seq <= b.record.Last; seq++ {
		m, err := b.getMessage(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("watch: message %d of %s, a piece of the state: %w; %s", seq, wire.AlarmStream(b.job), err, recreateHint(b.job))
		}
		if m.Subject != wire.AlarmStateSubject(b.job) { // foreign: published while the state was stored
			continue
		}
		if data = append(data, m.Data...); len(data) > alarm.MaxState {
			break
		}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != b.record.SHA256 {
		return nil, fmt.Errorf("watch: the state in %s, messages %d to %d, is damaged; %s", wire.AlarmStream(b.job), b.record.First, b.record.Last, recreateHint(b.job))
	}
	return alarm.DecodeFold(data)
}

// getMessage reads a message, and retries while the server is unreachable.
func (b *book) getMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := b.link.Attempt(ctx)
		m, err := b.stream.GetMsg(try, seq)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrConnectionClosed) {
			return m, err
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return nil, err
		}
	}
}
