package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrFenced is the error where another process has taken the alarms over.
var ErrFenced = errors.New("watch: another process writes the alarms of this job now")

// record is the message that says who writes the log.
type record struct {
	Writer  string    `json:"writer"`
	Output  time.Time `json:"output"`   // when the job's output was made that positions refer to
	First   uint64    `json:"first"`    // pieces of the state: messages of the log
	Last    uint64    `json:"last"`     // likewise
	SHA256  string    `json:"sha256"`   // of the state
	Number  uint64    `json:"number"`   // of the last event in it
	InState uint64    `json:"position"` // in the output
	// Server is the NATS server that the writer was connected to: another name after each
	// start of a server.
	Server string `json:"server,omitempty"`
}

const (
	toldEvery   = 10 * time.Second
	lookEvery   = time.Second
	stopTimeout = 10 * time.Second
	recordBytes = 64 << 10
	pieceBytes  = 512 << 10
)

// book is the alarm log, of which this process is the only writer.
type book struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	link    *store.Link
	job     string
	writer  string
	last    uint64 // number of the last message
	record  record
	inbox   *inbox // of events that are published together; nil = one by one
	batches int    // how often that was
	skipped uint64 // messages that are no events
	log     *slog.Logger
}

// openBook finds the log.
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

// close ends it: it publishes no more.
func (b *book) close() {
	if b.inbox != nil {
		b.inbox.close()
	}
}

// read finds the last message, and the newest record; known is false where the log has
// not begun.
func (b *book) read(ctx context.Context) (known bool, err error) {
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
		return false, b.unbegun(try)
	case err != nil:
		return false, err
	}
	b.record = record{}
	if len(m.Data) > recordBytes {
		err = fmt.Errorf("it has %d bytes", len(m.Data))
	} else {
		err = json.Unmarshal(m.Data, &b.record)
	}
	if err == nil && (b.record.First == 0 || b.record.Last < b.record.First || b.record.Last > b.last) {
		err = fmt.Errorf("it names the messages %d to %d", b.record.First, b.record.Last)
	}
	if err != nil {
		return false, fmt.Errorf("watch: record %d of %s is damaged: %w; %s", m.Sequence, wire.AlarmStream(b.job), err, anew(b.job))
	}
	return true, nil
}

// unbegun is an error where a log without a record has events. Pieces of a state are
// those of a process that was killed, or is not done, before its first record.
func (b *book) unbegun(ctx context.Context) error {
	if b.last == 0 {
		return nil
	}
	found := ""
	err := b.messages(ctx, 1, false, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		if m.Subject() != wire.AlarmStateSubject(b.job) {
			if _, err := alarm.Unmarshal(m.Data()); err == nil {
				found = m.Subject()
			} else {
				b.skip(meta.Sequence.Stream, m.Subject(), err)
			}
		}
		return found == "" && meta.Sequence.Stream < b.last
	})
	if found != "" {
		return fmt.Errorf("watch: NATS stream %s has events on %s, but no record: something else was published there, or the record was deleted; %s", wire.AlarmStream(b.job), found, anew(b.job))
	}
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// passOver reports whether the message behind the last one is not of a writer of the log:
// neither a record, nor a piece of a state, nor an event. The log continues behind it.
func (b *book) passOver(m *jetstream.RawStreamMsg) bool {
	if m.Subject == wire.AlarmRecordSubject(b.job) || m.Subject == wire.AlarmStateSubject(b.job) {
		return false
	}
	_, err := parseLogged(m.Data, m.Header)
	if err == nil {
		return false
	}
	b.last = m.Sequence
	b.skip(m.Sequence, m.Subject, err)
	return true
}

// skip notes a message of the log that is no event.
func (b *book) skip(seq uint64, subject string, err error) {
	b.skipped++
	level := slog.LevelDebug
	if b.skipped&(b.skipped-1) == 0 { // 1, 2, 4, 8: whoever publishes many does not fill the log
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "a message of the alarm log is no event and is left out: somebody else publishes there", "stream", wire.AlarmStream(b.job), "message", seq, "subject", subject, "messages", b.skipped, "err", err)
}

// anew says how a new alarm log is begun, and nothing is destroyed.
func anew(job string) string {
	name := wire.AlarmStream(job)
	return fmt.Sprintf("look at it first (eusn-stream alarms tail --since, nats stream view %s), keep a copy (nats stream backup %s DIRECTORY), and only then remove it (nats stream rm %s): a new alarm log begins", name, name, name)
}

// claim makes this process the writer of a log with a record.
func (b *book) claim(ctx context.Context) error {
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
	if err := b.put(ctx, b.compose(wire.AlarmRecordSubject(b.job), data)); err != nil {
		return err
	}
	b.record = r
	return nil
}

// event publishes an event.
func (b *book) event(ctx context.Context, e *alarm.Logged) error {
	m, err := b.message(e)
	if err != nil {
		return err
	}
	return b.put(ctx, m)
}

// message is the one of an event.
func (b *book) message(e *alarm.Logged) (*nats.Msg, error) {
	data, err := e.Event.Marshal()
	if err != nil {
		return nil, err
	}
	subject := wire.AlarmRulesSubject(b.job)
	if e.Event.Kind != alarm.RulesChanged {
		subject = wire.AlarmSubject(b.job, e.Event.Rule, alarm.Token(e.Event.Key))
	}
	m := b.compose(subject, data)
	if text := alarm.PlacesText(e.Judged); text != "" {
		m.Header.Set(wire.HeaderJudged, text)
	}
	if e.By != (alarm.Place{}) {
		m.Header.Set(wire.HeaderPrediction, alarm.PlacesText([]alarm.Place{e.By}))
	}
	return m, nil
}

// compose makes a message of the log.
func (b *book) compose(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{wire.HeaderKind: {wire.KindAlarm}, wire.HeaderWorker: {b.writer}}}
}

// put publishes a message behind the last one, and returns when it is stored.
func (b *book) put(ctx context.Context, m *nats.Msg) error {
	told := time.Time{}
	for {
		m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last, 10))
		try, cancel := b.link.Attempt(ctx)
		ack, err := b.js.PublishMsg(try, m, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			b.last = ack.Sequence
			return nil
		}
		if errors.Is(err, nats.ErrConnectionClosed) { // for good
			return fmt.Errorf("watch: %w", err)
		}
		before := b.last
		if done, err := b.settle(ctx, m, err); done || err != nil {
			return err
		}
		if b.last > before { // behind a message that is no event
			continue
		}
		if time.Since(told) > toldEvery {
			told = time.Now()
			b.log.Warn("the server does not store the alarms: trying again", "stream", wire.AlarmStream(b.job), "err", err)
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return err
		}
	}
}

// settle finds out what became of a message without a good answer: done, it is stored;
// without an error it may be sent again.
func (b *book) settle(ctx context.Context, m *nats.Msg, cause error) (done bool, err error) {
	if store.Refused(cause) && !store.OvertakenBy(cause) && !unavailable(cause) {
		return false, fmt.Errorf("watch: the server refuses a message of %s: %w", wire.AlarmStream(b.job), cause)
	}
	for again := false; ; again = true {
		try, cancel := b.link.Attempt(ctx)
		there, err := b.stream.GetMsg(try, b.last+1)
		cancel()
		switch {
		case err == nil && there.Subject == m.Subject && bytes.Equal(there.Data, m.Data) && there.Header.Get(wire.HeaderWorker) == b.writer:
			b.last++
			return true, nil
		case err == nil && b.passOver(there):
			return false, nil
		case err == nil:
			return false, fmt.Errorf("%w: message %d of %s is of %s", ErrFenced, b.last+1, wire.AlarmStream(b.job), there.Header.Get(wire.HeaderWorker))
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return false, nil // the server is away
		}
		if err = b.still(ctx); again || !errors.Is(err, ErrFenced) {
			return false, err
		}
		// Something was stored between the two answers: it may be this message.
	}
}

// unavailable reports whether a server refuses for now alone.
func unavailable(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 500
}

// errBack is the error where a NATS stream went back in time. What is known begins again
// with what the server has.
var errBack = errors.New("watch: a NATS stream went back in time (a power failure? a restored backup?)")

// errUnknown is the error where the server does not say whose the log is.
var errUnknown = errors.New("the server does not answer")

// still is an error where the last message of the log is known not to be ours.
func (b *book) still(ctx context.Context) error {
	if err := b.sure(ctx); !errors.Is(err, errUnknown) {
		return err
	}
	return nil
}

// sure is an error where it is not certain that the last message of the log is ours.
func (b *book) sure(ctx context.Context) error {
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
			if err != nil || !b.passOver(next) {
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

// save stores a state and the events that it has not come to, and a record that names it.
func (b *book) save(ctx context.Context, f *alarm.Fold, tail []alarm.Logged, output time.Time) error {
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
		if err := b.put(ctx, b.compose(wire.AlarmStateSubject(b.job), piece)); err != nil {
			return err
		}
		data = data[len(piece):]
	}
	r.Last = b.last
	if err := b.putRecord(ctx, r); err != nil {
		return err
	}
	// Not ended by ctx: what is removed is numbered, and nobody may do that later.
	try, cancel := b.link.Attempt(context.WithoutCancel(ctx))
	defer cancel()
	for subject, before := range map[string]uint64{wire.AlarmStateSubject(b.job): r.First, wire.AlarmRecordSubject(b.job): b.last} {
		if before < 2 { // nothing is before the first; some servers take 1 for all
			continue
		}
		if err := b.stream.Purge(try, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before)); err != nil && ctx.Err() == nil {
			b.log.Debug("an earlier state is removed later", "err", err)
		}
	}
	return nil
}

// state reads the state that the record names.
func (b *book) state(ctx context.Context) (*alarm.Fold, error) {
	var data []byte
	for seq := b.record.First; seq <= b.record.Last; seq++ {
		m, err := b.get(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("watch: message %d of %s, a piece of the state: %w; %s", seq, wire.AlarmStream(b.job), err, anew(b.job))
		}
		if data = append(data, m.Data...); len(data) > alarm.MaxState {
			break
		}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != b.record.SHA256 {
		return nil, fmt.Errorf("watch: the state in %s, messages %d to %d, is damaged; %s", wire.AlarmStream(b.job), b.record.First, b.record.Last, anew(b.job))
	}
	return alarm.DecodeFold(data)
}

// get reads a message, and waits while the server is away.
func (b *book) get(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
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
