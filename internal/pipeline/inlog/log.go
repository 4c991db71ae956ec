package inlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	maxPull     = 8 << 20         // bytes asked for at a time: the live stage reads from the same server
	readAhead   = 64              // messages that wait for the engine
	heartbeat   = time.Second     // between the server's heartbeats while there is no message
	forgetAfter = time.Minute     // the server deletes a consumer without a client after this time
	closing     = 5 * time.Second // for a callback that nothing else ends
	silence     = 5 * time.Second // without a message: check whether any message remains
)

// Errors of a log.
var (
	// ErrDue is returned by Log.Next when Log.Due fires.
	ErrDue = errors.New("inlog: it is time for something else")
	// ErrOtherLog reports that the log is not the log read before.
	ErrOtherLog = errors.New("what was read so far is of another log: begin again with another output")
)

// Endless is the last message of a log that is followed as it grows.
const Endless = math.MaxUint64

// Place is a message.
type Place struct {
	Seq    uint64 `json:"seq"`
	Stored int64  `json:"stored"` // ns
}

// Message is an input message, and the partition in which it was stored.
type Message struct {
	state.Message
	Stored int
}

// Log reads the input of a job, all partitions or one, in stored order. It changes
// nothing on the server except for a consumer in memory.
type Log struct {
	Input *store.Input
	JS    jetstream.JetStream
	Log   *slog.Logger
	Due   <-chan time.Time // optional: makes Next return ErrDue while there is no message
	Only  string           // optional: a subject of the stored input; only its messages are read, and Removed stays 0. Not for a followed log

	last    uint64 // the log ends at this message
	at      Place  // the last message handed out
	removed uint64
	final   bool // no message followed at the time of delivery
	came    chan delivered
	fault   chan error
	stop    func()
}

// delivered is a message from the consumer.
type delivered struct {
	jetstream.Msg
	Place
	first bool // first message of a consumer: earlier messages may have changed
	final bool // no message followed at the time of delivery
}

// Open begins after the message after, and ends with message last.
func (l *Log) Open(ctx context.Context, after Place, begin, last uint64) error {
	l.at, l.last = after, last
	if after.Seq == 0 {
		l.at.Seq = max(begin, 1) - 1
	}
	if err := l.checkSameInput(ctx); err != nil {
		return err
	}
	if err := l.confirmEmpty(ctx); err != nil {
		return err
	}
	c := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: l.at.Seq + 1, InactiveThreshold: forgetAfter}
	if l.Only != "" {
		c.FilterSubjects = []string{l.Only}
	}
	cons, err := l.JS.OrderedConsumer(ctx, l.Input.Name(), c)
	if err != nil {
		return fmt.Errorf("inlog: consumer of %s: %w", l.Input.Name(), err)
	}
	l.came, l.fault = make(chan delivered, readAhead), make(chan error, 1)
	inner, cancel := context.WithCancel(ctx)
	cc, err := cons.Consume(func(m jetstream.Msg) { l.deliverMessage(inner, m) }, jetstream.PullMaxBytes(maxPull), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if inner.Err() == nil && l.Log != nil {
				l.Log.Debug("consumer recovers", "err", err)
			}
		}))
	if err != nil {
		cancel()
		return fmt.Errorf("inlog: consumer of %s: %w", l.Input.Name(), err)
	}
	l.stop = func() { cancel(); natsclient.StopConsumer(cc, closing) }
	return nil
}

// Close ends the reading.
func (l *Log) Close() error {
	if l.stop != nil {
		l.stop()
	}
	return nil
}

// Removed returns the number of messages removed before they could be read.
func (l *Log) Removed() uint64 { return l.removed }

func (l *Log) deliverMessage(ctx context.Context, m jetstream.Msg) {
	if ctx.Err() != nil {
		return // the previous message may have been skipped: no message may follow
	}
	meta, err := m.Metadata()
	if err != nil {
		select {
		case l.fault <- fmt.Errorf("inlog: message on %s: %w", m.Subject(), err):
		default:
		}
		return
	}
	select {
	case l.came <- delivered{m, Place{meta.Sequence.Stream, meta.Timestamp.UnixNano()}, meta.Sequence.Consumer == 1, meta.NumPending == 0}:
	case <-ctx.Done():
	}
}

// Next returns the next message of a partition, or io.EOF after the last. If messages
// were removed before they could be read, state.Message.Lost is set.
func (l *Log) Next(ctx context.Context) (Message, error) {
	if l.final {
		if err := l.confirmEmpty(ctx); err != nil {
			return Message{}, err
		}
		l.final = false
	}
	for l.at.Seq < l.last {
		select {
		case <-l.Due:
			return Message{}, ErrDue
		case m := <-l.came:
			if next, found, err := l.acceptMessage(ctx, m); found || err != nil {
				return next, err
			}
		case err := <-l.fault:
			return Message{}, err
		case <-time.After(silence):
			if err := l.readInfo(ctx); err != nil {
				return Message{}, err
			}
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
	return Message{}, io.EOF
}

// acceptMessage moves to a delivered message, and reports whether a partition has it.
func (l *Log) acceptMessage(ctx context.Context, m delivered) (next Message, found bool, err error) {
	if m.first {
		if err := l.checkSameInput(ctx); err != nil {
			return next, false, err
		}
	}
	switch {
	case m.Seq <= l.at.Seq:
		return next, false, nil
	case m.Seq > l.last:
		l.skipRemaining()
		return next, false, nil
	}
	lost := l.Only == "" && (m.Seq > l.at.Seq+1 || l.at.Stored == 0 && m.Seq > 1)
	l.skipMessages(m.Seq - l.at.Seq - 1)
	l.at, l.final = m.Place, m.final
	part, found := partitionIn(m.Subject(), l.Input.Job) // otherwise the live stage does not find it either
	return Message{Stored: part, Message: state.Message{
		Seq: m.Seq, Stored: m.Place.Stored, Key: wire.KeyOf(m.Subject()), Header: m.Headers(), Data: m.Data(), Lost: lost,
	}}, found, nil
}

// knownLast returns the last message known to be in the log.
func (l *Log) knownLast() uint64 {
	if l.last == Endless {
		return l.at.Seq
	}
	return l.last
}

// readInfo finds out why nothing comes.
func (l *Log) readInfo(ctx context.Context) error {
	info, err := l.Input.Info(ctx, l.at.Seq)
	switch {
	case err != nil:
		return err
	case info.State.LastSeq < l.knownLast():
		return fmt.Errorf("inlog: %s ends at message %d, and had message %d: it lost its last messages: restore its store: %w", info.Config.Name, info.State.LastSeq, l.knownLast(), ErrOtherLog)
	case info.State.FirstSeq > l.last:
		l.skipRemaining()
	}
	return l.confirmEmpty(ctx)
}

// skipMessages counts missing messages. If only some messages are read, most of the
// missing messages are others.
func (l *Log) skipMessages(n uint64) {
	if l.Only == "" {
		l.removed += n
	}
}

// skipRemaining ends the reading: all messages up to the last are removed.
func (l *Log) skipRemaining() {
	l.skipMessages(l.last - l.at.Seq)
	l.at.Seq = l.last
}

// confirmEmpty ends the reading if no wanted message remains.
func (l *Log) confirmEmpty(ctx context.Context) error {
	if l.Only == "" || l.at.Seq >= l.last {
		return nil
	}
	try, cancel := l.Input.Link.Attempt(ctx)
	defer cancel()
	m, err := l.Input.Stream.GetMsg(try, l.at.Seq+1, jetstream.WithGetMsgSubject(l.Only))
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > l.last {
		l.last = l.at.Seq
		return nil
	}
	if err != nil {
		return fmt.Errorf("inlog: %s: %w", l.Input.Name(), err)
	}
	return nil
}

// checkSameInput requires that the last returned message is unchanged.
func (l *Log) checkSameInput(ctx context.Context) error {
	if l.at.Stored == 0 { // none was
		return nil
	}
	name := l.Input.Name()
	for {
		try, cancel := l.Input.Link.Attempt(ctx)
		m, err := l.Input.Stream.GetMsg(try, l.at.Seq)
		cancel()
		switch {
		case err == nil && m.Time.UnixNano() != l.at.Stored:
			return fmt.Errorf("inlog: message %d of %s was stored %s, but the one that was read %s: the input has other messages than before (a restored backup? a power failure?): %w",
				l.at.Seq, name, wire.CreatedText(m.Time), wire.CreatedText(time.Unix(0, l.at.Stored)), ErrOtherLog)
		case err == nil, errors.Is(err, jetstream.ErrMsgNotFound): // removed from the beginning
			return nil
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return store.LostInput(l.Input.Job)
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return err
		}
	}
}

// partitionIn reads the partition off a stored subject.
func partitionIn(subject, job string) (int, bool) {
	rest, ok := strings.CutPrefix(subject, job+".in.")
	if !ok {
		return 0, false
	}
	text, _, ok := strings.Cut(rest, ".")
	part, err := strconv.Atoi(text)
	return part, ok && err == nil && part >= 0 && part < store.MaxPartitions
}
