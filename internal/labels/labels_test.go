package labels_test

import (
	"context"
	"errors"
	"fmt"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)

func intervalLabel(stream, class, who string, from, to int64) labels.Label {
	return labels.Label{Stream: stream, From: from, To: to, Class: class, Who: who, When: noon}
}

// makeJob makes the NATS streams that identify a job.
func makeJob(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-OUT", Subjects: []string{"eusn.out.*"}}); err != nil {
		t.Fatal(err)
	}
}

// A name with a typing error gets no NATS stream.
func TestLabelsOfNoJob(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	makeJob(t, js)
	if _, err := labels.Add(t.Context(), js, "eusm", intervalLabel("p", "c", "anna", 0, 1)); !errors.Is(err, wire.ErrNoJob) || !strings.Contains(err.Error(), `"eusm"`) {
		t.Errorf("a label for a job that does not exist: %v", err)
	}
	if err := labels.Open(t.Context(), js, "eusm"); !errors.Is(err, wire.ErrNoJob) {
		t.Errorf("opened for a job that does not exist: %v", err)
	}
	if _, err := js.Stream(t.Context(), "EUSM-LABELS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("its NATS stream: %v", err)
	}
	if err := labels.Open(t.Context(), js, "eusn"); err != nil {
		t.Error(err)
	}
	if err := js.DeleteStream(t.Context(), "EUSN-OUT"); err != nil {
		t.Fatal(err)
	}
	if _, err := labels.Add(t.Context(), js, "eusn", intervalLabel("p", "c", "anna", 0, 1)); err != nil {
		t.Errorf("labels that outlive their job: %v", err)
	}
}

// A label is stored unchanged, and once for any number of attempts; and the last label
// of each person for the same samples counts.
func TestLabels(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	makeJob(t, js)
	add := func(l labels.Label) bool {
		t.Helper()
		repeat, err := labels.Add(t.Context(), js, "eusn", l) // the first call creates the NATS stream
		if err != nil {
			t.Fatal(err)
		}
		return repeat
	}
	first := intervalLabel("pump 7.a", "imbalance", "anna", -5, 1<<61+1)
	sequence := labels.Label{Stream: "p", Seq: 1<<53 + 1, Row: 1<<32 - 1, Class: `a "b" <ü>`, Who: "anna", When: noon}
	zero := labels.Label{Stream: "p", Seq: 1, Class: "c", Who: "anna", When: noon}
	for i, l := range []labels.Label{first, sequence, zero} {
		if add(l) || !add(l) {
			t.Errorf("label %d: the second time is not known as a repeat, or the first one is", i)
		}
	}
	corrected, other := first, first
	corrected.Class, corrected.When = "healthy", noon.Add(time.Second)
	other.Who = "bert"
	withdrawn := zero
	withdrawn.Class, withdrawn.When = "", noon.Add(time.Second)
	add(corrected)
	add(other)
	add(withdrawn)
	for _, text := range []string{"", "{}", `{"stream":"p"}`} {
		if _, err := js.Publish(t.Context(), "eusn.labels.p", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(stream string) (all []labels.Stored, foreign int) {
		t.Helper()
		err := labels.Read(t.Context(), js, "eusn", stream, func(l labels.Stored) error { all = append(all, l); return nil }, func(uint64, error) { foreign++ })
		if err != nil {
			t.Fatal(err)
		}
		return all, foreign
	}
	all, foreign := read("")
	want := []labels.Label{first, sequence, zero, corrected, other, withdrawn}
	if len(all) != len(want) || foreign != 3 {
		t.Fatalf("%d labels and %d other messages, want %d and 3", len(all), foreign, len(want))
	}
	for i, l := range want {
		if all[i].Label != l {
			t.Errorf("label %d is\n%+v, want\n%+v", i, all[i].Label, l)
		}
	}
	var current []string
	for _, l := range labels.Current(all) {
		current = append(current, l.Label.Who+":"+l.Label.Class)
	}
	if got := strings.Join(current, " "); got != `anna:a "b" <ü> anna:healthy bert:imbalance` {
		t.Errorf("current are %s", got)
	}
	add(intervalLabel("pump_7_a", "x", "anna", 0, 1)) // of the same subject
	if some, _ := read("pump 7.a"); len(some) != 3 {
		t.Errorf("%d labels of a stream, want 3: %+v", len(some), some)
	}
	if none, _ := read("nobody"); len(none) != 0 {
		t.Errorf("labels of a stream without any: %+v", none)
	}
	boom := errors.New("boom")
	if err := labels.Read(t.Context(), js, "eusn", "", func(labels.Stored) error { return boom }, func(uint64, error) {}); err != boom {
		t.Errorf("an error of the reader: %v", err)
	}
}

// Without room a label is refused with an error, and none is dropped.
func TestLabelsAreFull(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	if err := labels.Ensure(t.Context(), js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	if err := labels.Ensure(t.Context(), js, "eusn", 1); err != nil {
		t.Errorf("the second time: %v", err)
	}
	s, err := js.Stream(t.Context(), "EUSN-LABELS")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.MaxMsgs != labels.MaxLabels || c.Discard != jetstream.DiscardNew {
		t.Errorf("limits %+v", c)
	}
	c.MaxMsgs = 2
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		_, err = labels.Add(t.Context(), js, "eusn", intervalLabel("p", "c", "anna", i, i+1))
	}
	pipelinetest.Mentions(t, err, "maximum messages")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := labels.Add(ctx, js, "eusn", intervalLabel("p", "c", "anna", 0, 9)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestWrongLabels(t *testing.T) {
	long := strings.Repeat("x", 257)
	for says, l := range map[string]labels.Label{
		"stream is empty":        intervalLabel("", "c", "w", 0, 1),
		"who is empty":           intervalLabel("s", "c", "", 0, 1),
		"want at most 256":       intervalLabel("s", long, "w", 0, 1),
		"control character":      intervalLabel("s\n", "c", "w", 0, 1),
		"not UTF-8":              intervalLabel("s", "\xff", "w", 0, 1),
		"a time and a later one": intervalLabel("s", "c", "w", 1, 1),
		"both times and":         {Stream: "s", From: 1, To: 2, Seq: 1, Class: "c", Who: "w", When: noon},
		"row without seq":        {Stream: "s", From: 1, To: 2, Row: 1, Class: "c", Who: "w", When: noon},
		"when is not set":        {Stream: "s", From: 1, To: 2, Class: "c", Who: "w"},
	} {
		_, err := l.Marshal()
		pipelinetest.Mentions(t, err, says)
	}
	ok := `"stream":"s","who":"w","when":"2026-01-31T12:00:00Z"`
	for text, says := range map[string]string{
		"":                                 "EOF",
		"{":                                "EOF",
		"[]":                               "cannot unmarshal",
		"{}":                               "from and to, or seq and row",
		"{" + ok + `,"seq":1,"label":"c"}`: "from and to, or seq and row",
		"{" + ok + `,"seq":1,"row":0}`:     "want label, or withdrawn",
		"{" + ok + `,"seq":1,"row":0,"label":"c","withdrawn":true}`:                          "want label, or withdrawn",
		"{" + ok + `,"seq":-1,"row":0,"label":"c"}`:                                          "cannot unmarshal",
		"{" + ok + `,"seq":1,"row":0,"label":"c","weight":2}`:                                `unknown field "weight"`,
		"{" + ok + `,"seq":1,"row":0,"label":"c"} {}`:                                        "more than one",
		"{" + ok + `,"from":"noon","to":"2026-01-31T12:00:00Z","label":"c"}`:                 "parsing time",
		"{" + ok + `,"from":"0001-01-01T00:00:00Z","to":"2026-01-31T12:00:00Z","label":"c"}`: "beyond 64 bits",
		"{" + ok + `,"from":"2026-01-31T12:00:00Z","label":"c"}`:                             "from and to",
		"{" + ok + `,"from":"2026-01-31T12:00:00Z","to":"2026-01-31T12:00:00Z","label":"c"}`: "a later one",
		`{"stream":"` + strings.Repeat("x", labels.MaxBytes) + `"}`:                          "want at most",
	} {
		_, err := labels.Unmarshal([]byte(text))
		pipelinetest.Mentions(t, err, says)
	}
}

// For any input, accepted labels are re-encoded unchanged.
func FuzzUnmarshal(f *testing.F) {
	for _, l := range []labels.Label{intervalLabel("s", "c", "w", -1, 1<<62), {Stream: "s", Seq: 3, Who: "w", When: noon}} {
		text, err := l.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"stream":"s","who":"w","when":"2026-01-31T12:00:00+23:59","from":"1969-12-31T23:59:59.999999999Z","to":"1970-01-01T00:00:00Z","label":"c"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := labels.Unmarshal(data)
		if err != nil {
			return
		}
		text, err := l.Marshal()
		if err != nil {
			t.Skip(fmt.Sprint("a year that JSON cannot have: ", err))
		}
		again, err := labels.Unmarshal(text)
		if err != nil || !again.When.Equal(l.When) {
			t.Fatalf("%+v is written as %s: %v", l, text, err)
		}
		again.When = l.When
		if again != l {
			t.Errorf("%+v is written as %s, and read as %+v", l, text, again)
		}
	})
}
