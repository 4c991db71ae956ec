package producer

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A recording of a plant is played on the plant's subjects, and resumed there; the same
// for live samples.
func TestPlantSubjects(t *testing.T) {
	t.Parallel()
	const subject = "plant.{site}.line.{line}.sensor.{sensor}"
	p, err := wire.ParsePattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	in, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{p.Filter()},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: p.Filter(), Destination: p.Destination("eusn", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"A.3.7", "A3.7.x", "A.37.x"}
	list := testSeries(3, 3)
	for i, key := range keys {
		list[i].Stream = key
	}
	play := Publisher{Subject: subject, Channels: []string{"x", "y"}, RowsPerMessage: 10, Log: pipelinetest.Log(t)}
	first, err := play.Publish(t.Context(), nc, FromSlice(list[:2]))
	if err != nil {
		t.Fatal(err)
	}
	play.Resume = true
	second, err := play.Publish(t.Context(), nc, FromSlice(list))
	if err != nil || second.Skipped != first.Messages || second.Messages == 0 {
		t.Fatalf("first %+v, then %+v, %v", first, second, err)
	}
	l, err := NewLive(t.Context(), nc, LiveOptions{Subject: subject, Channels: []string{"x", "y"}, Log: pipelinetest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	live := Item{Stream: "B.1.1", X: []float32{1, 2}}
	if err := l.Publish(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"B.1", "B.1.1.1", "B..1", "pump"} {
		live.Stream = wrong
		pipelinetest.Mentions(t, l.Publish(t.Context(), live), "cannot be a key of plant.*.line.*.sensor.*")
		_, err := play.Publish(t.Context(), nc, FromSlice([]Item{live}))
		pipelinetest.Mentions(t, err, "cannot be a key of plant.*.line.*.sensor.*")
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := in.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	for s := range info.State.Subjects {
		stored = append(stored, wire.KeyOf(s))
	}
	slices.Sort(stored)
	if want := []string{"A.3.7", "A.37.x", "A3.7.x", "B.1.1"}; !slices.Equal(stored, want) {
		t.Errorf("stored under %q, want %q", stored, want)
	}
}
