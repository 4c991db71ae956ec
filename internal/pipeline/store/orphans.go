package store

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// RemoveRows deletes rows that no snapshot and no state names. A row that cannot be
// deleted now is swept after the next claim.
func (s *Snapshots) RemoveRows(ctx context.Context, rows []uint64, log *slog.Logger) {
	for _, seq := range rows {
		if err := s.rows.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			log.Debug("old state row not deleted", "row", seq, "err", err)
			return
		}
	}
}

// RemoveOrphans counts the rows of a partition that owners before this epoch have left
// and the snapshot does not name. Call RemoveOrphans before work on the partition
// begins: from then on, named rows are deleted, too.
func (s *Snapshots) RemoveOrphans(ctx context.Context, part int, epoch uint64, kept map[uint64]bool) (n int, err error) {
	ctx, cancel := s.Link.Attempt(ctx)
	defer cancel()
	info, err := s.rows.Info(ctx, jetstream.WithSubjectFilter(wire.RowSubjects(s.Job, part)))
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

// SweepRows deletes the given number of orphans. Later owners name only the rows of the
// snapshot that this owner began from, this owner's rows and their own rows, so a late
// sweep deletes no row in use.
func (s *Snapshots) SweepRows(ctx context.Context, orphans, part int, epoch uint64, kept map[uint64]bool, log *slog.Logger) {
	for seq := uint64(1); orphans > 0; seq++ {
		m, err := s.rows.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(wire.RowSubjects(s.Job, part)))
		if err != nil {
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				log.Debug("state rows not swept", "partition", part, "err", err)
			}
			return
		}
		if seq = m.Sequence; olderRow(m.Subject, epoch) && !kept[seq] {
			s.RemoveRows(ctx, []uint64{seq}, log)
			orphans--
		}
	}
}
