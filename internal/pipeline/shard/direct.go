package shard

import "github.com/eusn-stream/eusn-stream/internal/pipeline/state"

// Direct is a shard driven by the caller, message by message, with one partition
// without an owner, for computations outside the live stage. Slots must not run out
// (Config.MaxSlots), because no row can be stored.
type Direct struct {
	shard *Shard
	part  *Partition
	batch *Batch
	id    int // partition number that Encode writes
}

// NewDirect makes the partition of a shard without a goroutine, from a state encoded by
// Encode; nil for a partition without messages.
func NewDirect(s *Shard, encoded []byte) (*Direct, error) { return NewDirectOf(s, 0, encoded) }

// NewDirectOf makes a partition of the job from the partition's snapshot.
func NewDirectOf(s *Shard, part int, snapshot []byte) (*Direct, error) {
	d := &Direct{shard: s, part: NewPartition(part, 0), batch: NewBatch(1), id: part}
	if snapshot != nil {
		from, err := state.Decode(snapshot, s.Machine.Shape, part)
		if err != nil {
			return nil, err
		}
		d.part.State.TakeOver(from)
	}
	return d, s.InstallPartition(d.batch, d.part)
}

// State is the partition's.
func (d *Direct) State() *state.Partition { return d.part.State }

// BeginBatch empties the batch and invalidates the results of FinishBatch.
func (d *Direct) BeginBatch() { d.batch.Reset() }

// TakeMessage adds a message stored in a partition of the job, and reports whether the
// batch has room for another message. Only end events depend on the partition's number.
func (d *Direct) TakeMessage(m state.Message, stored int) (room bool, err error) {
	d.part.State.ID = stored
	err = d.shard.takeJob(d.batch, Job{Part: d.part, Msg: m})
	return d.shard.hasRoom(d.batch), err
}

// ReleaseWaiting uses the messages of keys held for numbers before the first message
// read.
func (d *Direct) ReleaseWaiting() error {
	return d.shard.Machine.ReleaseWaiting(d.part.State, func(m state.Message) error {
		_, err := d.TakeMessage(m, 0)
		return err
	})
}

// Samples is how many samples the batch has.
func (d *Direct) Samples() int { return d.batch.Fx.Samples }

// FinishBatch computes the batch. Its results are valid until BeginBatch.
func (d *Direct) FinishBatch() (state.Predictions, []state.DeadLetter, error) {
	if err := d.shard.AdvanceBatch(d.batch); err != nil {
		return state.Predictions{}, nil, err
	}
	if err := d.shard.finishBatch(d.batch); err != nil {
		return state.Predictions{}, nil, err
	}
	var dead []state.DeadLetter
	for _, r := range d.batch.Dead {
		dead = append(dead, r.DeadLetter)
	}
	return d.batch.Answers[0].Predictions, dead, nil
}

// Encode returns the whole state after the computed batches.
func (d *Direct) Encode() ([]byte, error) {
	d.part.State.ID = d.id
	return d.part.State.Encode(d.shard.Machine.Shape, state.RowsIn{Rows: d.shard})
}
