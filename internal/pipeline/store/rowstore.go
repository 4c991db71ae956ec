package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// RowsAtOnce limits the rows in transit to the server, and rowBytesAtOnce their
	// bytes: more gains nothing.
	RowsAtOnce     = 256
	RowBytesAtOnce = 8 << 20
	// mostRowsUnderWay is for as many shards as a stage may have.
	mostRowsUnderWay = 1024 * RowsAtOnce
	// rowReaders is how many rows are requested in parallel.
	rowReaders = 16
	// rowPatience is how long a store without answers is asked before the partition is
	// given up for a while, so that other partitions of its shard continue.
	rowPatience = 30 * time.Second
)

// ErrRow reports a missing or changed stored row.
var ErrRow = errors.New("restore the store, or start a new job")

// HeaderRoom is the space reserved for headers in an output message.
const HeaderRoom = 4 << 10

// StoredRow is a row to store.
type StoredRow struct {
	Subject string
	ID      string // for the server's duplicate window: an answer may be lost
	Data    []byte
	Slot    int32 // its slot until the row is stored
	Ref     wire.RowRef
}

// RowLimit returns the largest size of a row, bytes: the server announces the limit
// with each connection.
func (s *Snapshots) RowLimit() int { return int(s.rowJS.Conn().MaxPayload()) - HeaderRoom }

// openRows opens the job's store of rows. The store has a separate publisher, because
// row messages come in groups.
func (s *Snapshots) openRows(ctx context.Context, js jetstream.JetStream, job string) error {
	var err error
	if s.rows, err = js.Stream(ctx, wire.RowStream(job)); err != nil {
		return fmt.Errorf("pipeline: NATS stream %s: %w", wire.RowStream(job), err)
	}
	s.rowJS, err = jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(CommitTimeout), jetstream.WithPublishAsyncMaxPending(mostRowsUnderWay))
	if err != nil {
		return fmt.Errorf("pipeline: JetStream: %w", err)
	}
	s.Job, s.Patience = job, rowPatience
	return nil
}

// PutRows stores rows and fills in the numbers of the stored rows. If some rows are not
// stored, it returns the cause: a refusal, no answer for rowPatience (ErrLater), or the
// end of a stop's time.
func (s *Snapshots) PutRows(ctx context.Context, rows []StoredRow) error {
	where := wire.RowStream(s.Job)
	if s.Mute.Load() {
		return fmt.Errorf("pipeline: %s has not answered: %w", where, ErrLater)
	}
	for late := time.Now().Add(s.Patience); ; {
		var cause error
		for from := 0; from < len(rows); {
			to, size := from, 0
			for ; to < len(rows) && to-from < RowsAtOnce && size <= RowBytesAtOnce; to++ {
				size += len(rows[to].Data)
			}
			if err := s.putGroup(ctx, rows[from:to]); err != nil {
				cause = err
			}
			from = to
		}
		left := 0
		for i := range rows {
			if rows[i].Ref.Seq == 0 {
				left++
			}
		}
		switch {
		case left == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("pipeline: %d state rows to %s: %w", left, where, cause)
		case s.isRefused(cause):
			return fmt.Errorf("pipeline: %s accepts no state rows: %w: make space there, restore it or undo what was changed, or raise max_slots: %w", where, cause, ErrLater)
		case time.Now().After(late):
			s.Mute.Store(true)
			return fmt.Errorf("pipeline: %s has not answered for %d state rows in %v: %w: check that the server works, and that the stage may publish on %s.rows.>: %w", where, left, s.Patience, cause, s.Job, ErrLater)
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return fmt.Errorf("pipeline: %d state rows to %s: %w", left, where, err)
		}
	}
}

// isRefused reports whether the server has refused a row, so that an immediate retry is
// useless. A replicated stream without answers is electing a leader.
func (s *Snapshots) isRefused(err error) bool {
	return IsRefused(err) || IsUnanswered(err) && !s.isReplicated()
}

// putGroup publishes the rows of a small group without a number yet, and returns the
// last error.
func (s *Snapshots) putGroup(ctx context.Context, rows []StoredRow) (failure error) {
	acks := make([]jetstream.PubAckFuture, len(rows))
	for i, r := range rows {
		if r.Ref.Seq > 0 {
			continue
		}
		msg := &nats.Msg{Subject: r.Subject, Data: r.Data, Header: nats.Header{jetstream.MsgIDHeader: {r.ID}}}
		var err error
		if acks[i], err = s.rowJS.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0)); err != nil {
			failure = err
		}
	}
	// As in committer.await: the client may never answer for the server.
	late := time.NewTimer(2 * CommitTimeout)
	defer late.Stop()
	for i, a := range acks {
		if a == nil {
			continue
		}
		select {
		case ack := <-a.Ok():
			rows[i].Ref.Seq = ack.Sequence
		case err := <-a.Err():
			failure = err
		case <-late.C:
			return nats.ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failure
}

// ProbeRows checks, in parallel to the work, whether a store that did not answer works
// again, with a probe row: under epoch 0, which no owner has, a remaining probe is
// swept.
func (s *Snapshots) ProbeRows(ctx context.Context, part, size int, log *slog.Logger) {
	ctx, cancel := s.Link.Attempt(ctx)
	defer cancel()
	ack, err := s.rowJS.PublishMsg(ctx, &nats.Msg{Subject: wire.RowSubject(s.Job, part, 0), Data: make([]byte, size)}, jetstream.WithRetryAttempts(0))
	if err == nil {
		s.RemoveRows(ctx, []uint64{ack.Sequence}, log)
	}
	if err == nil || s.isRefused(err) {
		s.Mute.Store(false)
	}
}

// GetRows reads rows of the given words, several in parallel, and checks their hashes.
// Each has a row or an error: ErrLater, the row's fault (ErrRow), or the end of a
// stop's time.
func (s *Snapshots) GetRows(ctx context.Context, refs []wire.RowRef, words int) ([][]uint32, []error) {
	rows, errs := make([][]uint32, len(refs)), make([]error, len(refs))
	var wg sync.WaitGroup
	n := min(rowReaders, len(refs))
	for k := range n {
		wg.Go(func() {
			for i := k; i < len(refs); i += n {
				rows[i], errs[i] = s.getRow(ctx, refs[i], words)
			}
		})
	}
	wg.Wait()
	return rows, errs
}

func (s *Snapshots) getRow(ctx context.Context, ref wire.RowRef, words int) ([]uint32, error) {
	begin, where := time.Now(), wire.RowStream(s.Job)
	for {
		try, cancel := s.Link.Attempt(ctx)
		m, err := s.rows.GetMsg(try, ref.Seq)
		cancel()
		switch {
		case err == nil:
			return parseRow(m.Data, ref, words, where)
		case errors.Is(err, jetstream.ErrMsgNotFound):
			if s.isReplicated() && time.Since(begin) < StaleGrace {
				break // a new leader may not have the row yet
			}
			return nil, fmt.Errorf("pipeline: state row %d of %s is lost: %w; %w", ref.Seq, where, err, ErrRow)
		case ctx.Err() != nil:
		case s.isRefused(err):
			return nil, fmt.Errorf("pipeline: state row %d of %s cannot be read: %w: restore the store: %w", ref.Seq, where, err, ErrLater)
		case time.Since(begin) > s.Patience || s.Mute.Load():
			s.Mute.Store(true)
			return nil, fmt.Errorf("pipeline: %s has not answered for state row %d: %w: check that the server works: %w", where, ref.Seq, err, ErrLater)
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, fmt.Errorf("pipeline: state row %d of %s: %w", ref.Seq, where, err)
		}
	}
}

// parseRow reads a row's bytes, which must equal the stored bytes.
func parseRow(data []byte, ref wire.RowRef, words int, where string) ([]uint32, error) {
	if len(data) != 4*words || wire.HashOf(data) != ref.Hash {
		return nil, fmt.Errorf("pipeline: state row %d of %s is not the one that was stored there: it was damaged or replaced; %w", ref.Seq, where, ErrRow)
	}
	row := make([]uint32, words)
	for i := range row {
		row[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return row, nil
}
