package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Chunks of an unfinished upload are swept, but only if they were there, without an
// entry, at the previous sweep; nothing else is swept.
func TestHalfUploadsAreSwept(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx := t.Context()
	s, err := snapshotsOf(ctx, js, layoutOf("half"))
	if err != nil {
		t.Fatal(err)
	}
	piece := func(id string) {
		t.Helper()
		if _, err := js.Publish(ctx, s.chunkSubject(id), []byte("piece")); err != nil {
			t.Fatal(err)
		}
	}
	there := func(id string) uint64 {
		t.Helper()
		info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.chunkSubject(id)))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Subjects[s.chunkSubject(id)]
	}
	if err := s.Put(ctx, "p0.e1.5", []byte("a snapshot in use")); err != nil {
		t.Fatal(err)
	}
	piece("old")
	piece("old")
	s.Sweep(ctx, map[int]Claim{0: {Epoch: 1, Found: ""}}, true, pipelinetest.Log(t))
	piece("young")
	if there("old") != 2 {
		t.Fatal("pieces seen for the first time are gone: the upload may be under way")
	}
	s.Sweep(ctx, map[int]Claim{0: {Epoch: 1, Found: ""}}, false, pipelinetest.Log(t))
	if there("old") != 2 {
		t.Fatal("a sweep after a claim looked at pieces: its time may be any")
	}
	s.Sweep(ctx, map[int]Claim{0: {Epoch: 1, Found: ""}}, true, pipelinetest.Log(t))
	if there("old") != 0 || there("young") != 1 {
		t.Errorf("after the second sweep: %d old pieces, want 0, %d young, want 1", there("old"), there("young"))
	}
	if got, err := s.Get(ctx, "p0.e1.5"); err != nil || string(got) != "a snapshot in use" {
		t.Errorf("the snapshot in use: %q, %v", got, err)
	}
}

// A removed snapshot leaves nothing; the object store's own method leaves a marker for
// each, and a stage removes thousands a day. Existing markers are swept.
func TestRemovedSnapshotsLeaveNothing(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx := t.Context()
	s, err := snapshotsOf(ctx, js, layoutOf("nothing"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Put(ctx, wire.SnapshotName(0, 1, uint64(i)), []byte("state")); err != nil {
			t.Fatal(err)
		}
	}
	s.Remove(ctx, wire.SnapshotName(0, 1, 0), pipelinetest.Log(t))
	s.Remove(ctx, wire.SnapshotName(0, 1, 1), pipelinetest.Log(t))
	if err := s.objects.Delete(ctx, wire.SnapshotName(0, 1, 2)); err != nil { // leaves a marker
		t.Fatal(err)
	}
	s.Sweep(ctx, map[int]Claim{0: {Epoch: 2, Found: ""}}, false, pipelinetest.Log(t))
	info, err := s.stream.Info(ctx)
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("%d messages are left in the bucket, %v", info.State.Msgs, err)
	}
}

// A failed request for a snapshot's chunks after a broken connection does not count as
// a loss, which would stop its partition; missing chunks do.
func TestFailedQuestionIsNoLoss(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx := t.Context()
	s, err := snapshotsOf(ctx, js, layoutOf("question"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "p0.e1.5", []byte("state")); err != nil {
		t.Fatal(err)
	}
	there := s.stream
	s.stream = &mute{there}
	var d Download
	if err := s.readObject(ctx, "p0.e1.5", maxSnapshot, &d); !errors.Is(err, nats.ErrReconnectBufExceeded) || LostSnapshot(err) {
		t.Errorf("no answer about the pieces: %v, lost %v; want the client's error, and not lost", err, LostSnapshot(err))
	}
	s.stream = there
	if err := s.readObject(ctx, "p0.e1.5", maxSnapshot, &d); err != nil || string(d.data) != "state" {
		t.Errorf("asked again: %q, %v", d.data, err)
	}
	if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.chunkSubject("*"))); err != nil {
		t.Fatal(err)
	}
	if err := s.readObject(ctx, "p0.e1.5", maxSnapshot, new(Download)); !LostSnapshot(err) {
		t.Errorf("without its pieces: %v, want a lost snapshot", err)
	}
}

// mute is a NATS stream that reports nothing about messages.
type mute struct{ jetstream.Stream }

func (m *mute) GetMsg(context.Context, uint64, ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return nil, nats.ErrReconnectBufExceeded
}

// An upload with an unanswered request, as during the election of the bucket's leader,
// ends soon: the release of a partition waits for it. The server here drops requests
// that the user has no right to.
func TestUploadsDoNotHang(t *testing.T) {
	t.Parallel()
	ns := pipelinetest.Serve(t, &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{
			{Username: "all", Password: "all"},
			{Username: "some", Password: "some", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.MSG.GET.>"}}}},
		},
	})
	ctx, began := t.Context(), time.Time{}
	for _, user := range []string{"all", "some"} {
		js := pipelinetest.JetStreamAt(t, ns.ClientURL(), nats.UserInfo(user, user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		s, err := snapshotsOf(ctx, js, layoutOf("hang"))
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		err = s.Put(ctx, "p0.e1.5", []byte("state"))
		if answered := user == "all"; answered != (err == nil) || !answered && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("user %s: %v", user, err)
		}
	}
	if took := time.Since(began); took > CommitTimeout+pipelinetest.Patience {
		t.Errorf("the upload gave up after %v, want about %v", took, CommitTimeout)
	}
}
