package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// rowsAtOnce is how many rows are on their way to the server together, and
	// rowBytesAtOnce what they may weigh: more gains nothing.
	rowsAtOnce     = 256
	rowBytesAtOnce = 8 << 20
	// rowReaders is how many rows are asked for side by side.
	rowReaders = 16
	// rowPatience is how long a row is asked or offered before its partition
	// is given up, to be claimed again, so that others of its shard may go on.
	rowPatience = 30 * time.Second
)

// errLater gives a partition up without stopping it.
var errLater = errors.New("pipeline: the store of state rows does not answer")

// errRow is a stored row that is not there, or not what it was.
var errRow = errors.New("restore the store, or start a new job")

// rowRef is a state row that is not in the engine: its message in the NATS
// stream <JOB>-ROWS, and what its bytes must hash to.
type rowRef struct {
	seq  uint64 // 0 = none
	hash digest
}

// storedRow is a row on its way out.
type storedRow struct {
	subject string
	id      string // for the server's duplicate window: an answer may be lost
	data    []byte
	ref     rowRef
}

func rowStream(job string) string { return strings.ToUpper(job) + "-ROWS" }

func rowSubjects(job string, part int) string { return fmt.Sprintf("%s.rows.%d.*", job, part) }

func rowSubject(job string, part int, epoch uint64) string {
	return fmt.Sprintf("%s.rows.%d.%d", job, part, epoch)
}

// openRows finds the job's store of rows. It has a publisher of its own, for
// its messages come in groups.
func (s *snapshots) openRows(ctx context.Context, js jetstream.JetStream, job string) error {
	var err error
	if s.rows, err = js.Stream(ctx, rowStream(job)); err != nil {
		return fmt.Errorf("pipeline: NATS stream %s: %w", rowStream(job), err)
	}
	s.rowJS, err = jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(commitTimeout), jetstream.WithPublishAsyncMaxPending(maxShards*rowsAtOnce))
	if err != nil {
		return fmt.Errorf("pipeline: JetStream: %w", err)
	}
	s.job, s.rowLimit, s.patience = job, int(js.Conn().MaxPayload())-headerRoom, rowPatience
	return nil
}

// putRows stores rows and fills in their numbers. It returns when all are
// acknowledged, or errLater.
func (s *snapshots) putRows(ctx context.Context, rows []storedRow) error {
	for late := time.Now().Add(s.patience); ; {
		left, cause := 0, error(nil)
		for from := 0; from < len(rows); {
			to, size := from, 0
			for ; to < len(rows) && to-from < rowsAtOnce && size <= rowBytesAtOnce; to++ {
				size += len(rows[to].data)
			}
			if err := s.putGroup(ctx, rows[from:to]); err != nil {
				cause = err
			}
			from = to
		}
		for i := range rows {
			if rows[i].ref.seq == 0 {
				left++
			}
		}
		switch {
		case left == 0:
			return nil
		case permanent(cause) || ctx.Err() != nil:
			return fmt.Errorf("pipeline: %d state rows to %s: %w", left, rowStream(s.job), cause)
		case time.Now().After(late):
			return fmt.Errorf("%w: %d rows to %s: %w", errLater, left, rowStream(s.job), cause)
		}
		if err := pause(ctx, retryWait); err != nil {
			return fmt.Errorf("pipeline: %d state rows to %s: %w", left, rowStream(s.job), err)
		}
	}
}

// putGroup publishes those of a few rows that have no number yet, and returns
// the last failure.
func (s *snapshots) putGroup(ctx context.Context, rows []storedRow) (failure error) {
	acks := make([]jetstream.PubAckFuture, len(rows))
	for i, r := range rows {
		if r.ref.seq > 0 {
			continue
		}
		msg := &nats.Msg{Subject: r.subject, Data: r.data, Header: nats.Header{jetstream.MsgIDHeader: {r.id}}}
		var err error
		if acks[i], err = s.rowJS.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0)); err != nil {
			failure = err
		}
	}
	for i, a := range acks {
		if a == nil {
			continue
		}
		select {
		case ack := <-a.Ok():
			rows[i].ref.seq = ack.Sequence
		case err := <-a.Err():
			failure = err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failure
}

// getRows reads rows of so many words, several side by side, and checks their
// hashes. Each has a row or an error: errLater, or what is wrong with it.
func (s *snapshots) getRows(ctx context.Context, refs []rowRef, words int) ([][]uint32, []error) {
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

func (s *snapshots) getRow(ctx context.Context, ref rowRef, words int) ([]uint32, error) {
	begin := time.Now()
	for {
		try, cancel := s.link.attempt(ctx)
		m, err := s.rows.GetMsg(try, ref.seq)
		cancel()
		switch {
		case err == nil:
			return parseRow(m.Data, ref, words, rowStream(s.job))
		case errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound):
			if s.replicated() && time.Since(begin) < staleGrace {
				break // a new leader may not know it yet
			}
			return nil, fmt.Errorf("pipeline: state row %d of %s is lost: %w; %w", ref.seq, rowStream(s.job), err, errRow)
		case ctx.Err() == nil && time.Since(begin) > s.patience:
			return nil, fmt.Errorf("%w: row %d of %s: %w", errLater, ref.seq, rowStream(s.job), err)
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, fmt.Errorf("%w: row %d of %s: %w", errLater, ref.seq, rowStream(s.job), err)
		}
	}
}

// parseRow reads a row's bytes, which must be those that were stored.
func parseRow(data []byte, ref rowRef, words int, where string) ([]uint32, error) {
	if len(data) != 4*words || hashOf(data) != ref.hash {
		return nil, fmt.Errorf("pipeline: state row %d of %s is not the one that was stored there: it was damaged or replaced; %w", ref.seq, where, errRow)
	}
	row := make([]uint32, words)
	for i := range row {
		row[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return row, nil
}

func appendRowWords(dst []byte, row []uint32) []byte {
	for _, w := range row {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

// removeRows deletes rows that no snapshot and no state names any more. What
// cannot be deleted now is swept after the next claim.
func (s *snapshots) removeRows(ctx context.Context, rows []uint64, log *slog.Logger) {
	for _, seq := range rows {
		if err := s.rows.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			log.Debug("old state row not deleted", "row", seq, "err", err)
			return
		}
	}
}

// orphans counts the rows of a partition that owners before this epoch have
// left and the snapshot does not name. It is asked before the partition is
// worked on: from then on those named are deleted too.
func (s *snapshots) orphans(ctx context.Context, part int, epoch uint64, kept map[uint64]bool) (n int, err error) {
	ctx, cancel := s.link.attempt(ctx)
	defer cancel()
	info, err := s.rows.Info(ctx, jetstream.WithSubjectFilter(rowSubjects(s.job, part)))
	if err != nil {
		return 0, err
	}
	for subject, rows := range info.State.Subjects {
		if olderRow(subject, epoch) {
			n += int(rows)
		}
	}
	return n - len(kept), nil
}

// olderRow reports whether a row was stored by an owner before this epoch.
func olderRow(subject string, epoch uint64) bool {
	e, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
	return err == nil && e < epoch
}

// sweepRows deletes so many orphans. Owners after us name only the rows of the
// snapshot we began from, ours and theirs, so an owner that sweeps late
// deletes nothing of theirs.
func (s *snapshots) sweepRows(ctx context.Context, orphans, part int, epoch uint64, kept map[uint64]bool, log *slog.Logger) {
	for seq := uint64(1); orphans > 0; seq++ {
		m, err := s.rows.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(rowSubjects(s.job, part)))
		if err != nil {
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				log.Debug("state rows not swept", "partition", part, "err", err)
			}
			return
		}
		if seq = m.Sequence; olderRow(m.Subject, epoch) && !kept[seq] {
			s.removeRows(ctx, []uint64{seq}, log)
			orphans--
		}
	}
}
