package store

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A row is accepted only if equal to the stored row, bit for bit.
func TestParseRow(t *testing.T) {
	row := []uint32{1, 2, 0xffffffff}
	data := state.AppendRowWords(nil, row)
	ref := wire.RowRef{Seq: 3, Hash: wire.HashOf(data)}
	if got, err := parseRow(data, ref, 3, "X"); err != nil || !slices.Equal(got, row) {
		t.Fatalf("%v, %v", got, err)
	}
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if _, err := parseRow(data, ref, 3, "X"); err == nil {
			t.Fatalf("bit %d is wrong and nobody says so", bit)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for _, words := range []int{2, 4} {
		if _, err := parseRow(data, ref, words, "X"); err == nil {
			t.Errorf("a row of 3 words passes for one of %d", words)
		}
	}
}

// A recreated store reuses no row number of the deleted store: a snapshot may still
// name the number, and the snapshot's owner will delete the row.
func TestRowNumbersAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	put := func() uint64 {
		t.Helper()
		s, err := snapshotsOf(t.Context(), js, layoutOf("anew"))
		if err != nil {
			t.Fatal(err)
		}
		data := []byte("row")
		rows := []StoredRow{{Subject: wire.RowSubject("anew", 0, 1), ID: "1", Data: data, Ref: wire.RowRef{Hash: wire.HashOf(data)}}}
		if err := s.PutRows(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		return rows[0].Ref.Seq
	}
	before := put()
	if err := js.DeleteStream(t.Context(), wire.RowStream("anew")); err != nil {
		t.Fatal(err)
	}
	if after := put(); after <= before {
		t.Errorf("a row of the store created again has number %d, one of the old store had %d", after, before)
	}
}

// dumb is a JetStream that neither publishes nor answers.
type dumb struct {
	jetstream.JetStream
	asked atomic.Int64
}

type noAnswer struct{ jetstream.PubAckFuture }

func (noAnswer) Ok() <-chan *jetstream.PubAck { return nil }

func (noAnswer) Err() <-chan error { return nil }

func (d *dumb) PublishMsgAsync(*nats.Msg, ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	d.asked.Add(1)
	return noAnswer{}, nil
}

func (d *dumb) PublishMsg(ctx context.Context, _ *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that never answers, also not through the client, is waited for once;
// afterwards no caller waits until a probe is answered; the probe is removed.
func TestMuteRowStore(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	s, err := snapshotsOf(t.Context(), js, layoutOf("mute"))
	if err != nil {
		t.Fatal(err)
	}
	well := s.rowJS
	d := &dumb{JetStream: well}
	s.rowJS, s.Patience = d, time.Second
	put := func() error {
		data := []byte("row")
		return s.PutRows(t.Context(), []StoredRow{{Subject: wire.RowSubject("mute", 0, 1), ID: "1", Data: data, Ref: wire.RowRef{Hash: wire.HashOf(data)}}})
	}
	ended := make(chan error, 1)
	go func() { ended <- put() }()
	select {
	case err := <-ended:
		pipelinetest.Mentions(t, err, "MUTE-ROWS has not answered for 1 state rows", ErrLater.Error())
	case <-time.After(pipelinetest.Patience):
		t.Fatal("a store that never answers is waited for without end")
	}
	asked := d.asked.Load()
	pipelinetest.Mentions(t, put(), "has not answered", ErrLater.Error())
	s.ProbeRows(t.Context(), 0, 12, pipelinetest.Log(t))
	pipelinetest.Mentions(t, put(), "has not answered", ErrLater.Error())
	if n := d.asked.Load(); n != asked {
		t.Errorf("asked %d times more", n-asked)
	}
	s.rowJS = well
	s.ProbeRows(t.Context(), 0, 12, pipelinetest.Log(t))
	if err := put(); err != nil {
		t.Errorf("after its answer: %v", err)
	}
	stream, err := js.Stream(t.Context(), wire.RowStream("mute"))
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages in the store, want the row alone", n)
	}
}
